//! The connection cache behind an interface's driver, at tc's ingress: in the kernel's own list of
//! programs there (tcx, Linux 6.6), which costs each packet one call; in older kernels by a filter
//! of a queueing discipline (`clsact`, `cls_bpf`), which costs it several.

use std::path::{Path, PathBuf};

use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};

use super::{KernelError, REFUSE, error_text};
use crate::linux::border::number;
use crate::linux::shaper::TC;
use crate::linux::tool::ToolError;

/// What the name of a pinned hook at an interface begins with; its number follows.
pub const LINK: &str = "refuse_at_";
/// Our filter's hook among others' at an interface, and its number there.
const PREFERENCE: &str = "7110";

/// Puts the program that is pinned in this folder at an interface's ingress, in place of an earlier
/// one of ours.
pub(super) fn take(interface: &str, programs: &Path) -> Result<(), ToolError> {
    let link = link(interface, programs);
    // What is not there is refused by tc, which says so.
    let listed = link.as_deref().map(|link| list(interface, programs, link));
    if listed.is_some_and(|listed| listed.is_ok()) {
        return take_filter_out(interface);
    }
    filter(interface, &programs.join(REFUSE))?;
    if let Some(link) = link {
        std::fs::remove_file(link).ok();
    }
    Ok(())
}

/// Takes ours off an interface; `programs` are the folders in which any of ours are pinned.
pub(super) fn take_out(interface: &str, programs: &[PathBuf]) -> Result<(), ToolError> {
    for link in programs.iter().filter_map(|folder| link(interface, folder)) {
        // It ends with its name.
        std::fs::remove_file(link).ok();
    }
    take_filter_out(interface)
}

/// Takes a program out of the lists of all interfaces but these: those of an earlier run's border,
/// and what went with an interface that is no more.
pub(super) fn take_out_others(numbers: &[u32], programs: &Path) {
    let stale = |name: &str| {
        let number = name
            .strip_prefix(LINK)
            .and_then(|number| number.parse().ok());
        number.is_some_and(|number: u32| !numbers.contains(&number))
    };
    for entry in std::fs::read_dir(programs).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(stale) {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}

/// Where the hook of a program in an interface's list is pinned. By the interface's number: names
/// of pinned things have no dots, and those of VLANs' interfaces do.
fn link(interface: &str, programs: &Path) -> Option<PathBuf> {
    Some(programs.join(format!("{LINK}{}", number(interface)?)))
}

/// Puts it into the kernel's list.
///
/// # Errors
/// The kernel is older than 6.6, or refuses.
pub(super) fn list(interface: &str, programs: &Path, link: &Path) -> Result<(), KernelError> {
    let listed = try_list(interface, &programs.join(REFUSE), link);
    listed.map_err(|error| KernelError::Refused(REFUSE, error_text(error.as_ref())))
}

type Listed = Result<(), Box<dyn std::error::Error>>;

fn try_list(interface: &str, program: &Path, link: &Path) -> Listed {
    let mut program = SchedClassifier::from_pin(program)?;
    if link.exists() {
        // An earlier run's hook, with the program of this one. One that somebody has cut off is no
        // hook any more.
        if replace(&mut program, link).is_ok() {
            return Ok(());
        }
        std::fs::remove_file(link)?;
    }
    let last = TcAttachOptions::TcxOrder(LinkOrder::default());
    let id = program.attach_with_options(interface, TcAttachType::Ingress, last)?;
    let hook: FdLink = program.take_link(id)?.try_into()?;
    hook.pin(link)?;
    Ok(())
}

fn replace(program: &mut SchedClassifier, link: &Path) -> Listed {
    let hook = FdLink::from(PinnedLink::from_pin(link)?);
    let hook: SchedClassifierLink = hook.try_into()?;
    program.attach_to_link(hook)?;
    Ok(())
}

/// Whether the kernel has a list at an interface: Linux 6.6 and newer.
pub(super) fn has_list(interface: &str) -> bool {
    match listed(interface) {
        Ok(_) => true,
        // Whose programs are in it only CAP_SYS_ADMIN may see.
        Err(ProgramError::SyscallError(error)) => {
            error.io_error.kind() == std::io::ErrorKind::PermissionDenied
        }
        Err(_) => false,
    }
}

/// Puts the pinned program into the list, and takes out the filter that an earlier run on an older
/// kernel, or with an older build, has left.
///
/// # Errors
/// The kernel refuses, or tc does.
pub(super) fn take_listed(interface: &str, programs: &Path) -> Result<(), KernelError> {
    let Some(link) = link(interface, programs) else {
        let why = format!("there is no interface {interface}");
        return Err(KernelError::Refused(REFUSE, why));
    };
    list(interface, programs, &link)?;
    Ok(take_filter_out(interface)?)
}

/// Takes the program out of the list of the interface with this number.
pub(super) fn leave(number: u32, programs: &Path) {
    // It ends with its name.
    std::fs::remove_file(programs.join(format!("{LINK}{number}"))).ok();
}

/// The names of the programs in an interface's list, first to last.
///
/// # Errors
/// The kernel is older than 6.6, or there is no such interface.
pub fn listed(interface: &str) -> Result<Vec<String>, ProgramError> {
    let (_, programs) = SchedClassifier::query_tcx(interface, TcAttachType::Ingress)?;
    let names = programs
        .iter()
        .map(|program| program.name_as_str().unwrap_or_default().to_owned());
    Ok(names.collect())
}

/// Puts the pinned program at the ingress as a filter.
pub(super) fn filter(interface: &str, program: &Path) -> Result<(), ToolError> {
    if !TC
        .run(&["qdisc", "show", "dev", interface, "clsact"], "")?
        .contains("clsact")
    {
        TC.run(&["qdisc", "add", "dev", interface, "clsact"], "")?;
    }
    let path = program.display().to_string();
    let at = [
        "filter", "replace", "dev", interface, "ingress", "pref", PREFERENCE, "handle", "1",
    ];
    let what = ["bpf", "da", "object-pinned", &path];
    TC.run(&[at.as_slice(), &what].concat(), "")?;
    Ok(())
}

fn take_filter_out(interface: &str) -> Result<(), ToolError> {
    let queues = TC.run_if_there(&["qdisc", "show", "dev", interface, "clsact"])?;
    if !queues.is_some_and(|queues| queues.contains("clsact")) {
        return Ok(());
    }
    let shown = |way| TC.run(&["filter", "show", "dev", interface, way], "");
    // A hook without it is somebody else's, though nothing may be at it.
    if !shown("ingress")?.contains(&format!("pref {PREFERENCE} ")) {
        return Ok(());
    }
    let filter = [
        "filter", "del", "dev", interface, "ingress", "pref", PREFERENCE,
    ];
    TC.run(&filter, "")?;
    if shown("ingress")?.trim().is_empty() && shown("egress")?.trim().is_empty() {
        TC.run(&["qdisc", "del", "dev", interface, "clsact"], "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::take_out_others;

    #[test]
    fn hooks_at_other_interfaces_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "refuse",
            "refuse_at_3",
            "refuse_at_12",
            "refuse_at_",
            "refuse_new",
        ];
        for name in names {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        take_out_others(&[3, 4], folder.path());
        let left = names.map(|name| folder.path().join(name).exists());
        assert_eq!(left, [true, true, false, true, true]);
    }
}
