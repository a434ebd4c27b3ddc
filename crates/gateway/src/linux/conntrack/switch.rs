//! Whether the kernel counts what it carries (`net.netfilter.nf_conntrack_acct`) and notes when a
//! connection began (`nf_conntrack_timestamp`). Both are the machine's: what was set before is
//! kept in the folder of state, and put back.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::limits::COUNTING_FILE;

/// Where the kernel's settings are.
const FOLDER: &str = "/proc/sys/net/netfilter";
/// Those that are switched on. Without the first nothing is counted; a kernel may lack the second.
const SETTINGS: [&str; 2] = ["nf_conntrack_acct", "nf_conntrack_timestamp"];

/// The files of the kernel's settings, which the gateway writes.
pub fn files() -> impl Iterator<Item = PathBuf> {
    SETTINGS
        .iter()
        .map(|name| Path::new(FOLDER).join(name))
        .filter(|file| file.exists())
}

/// Whether the kernel counts; `None`: it cannot, or connection tracking is not loaded.
#[must_use]
pub fn is_on() -> Option<bool> {
    let file = Path::new(FOLDER).join(SETTINGS.first()?);
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim() != "0")
}

/// Switches counting on. What was set before is written down in `state` first, unless an earlier
/// run has left its own.
///
/// # Errors
/// The kernel has no such setting, or the system refuses to write it or the file.
pub fn on(state: &Path) -> io::Result<()> {
    let before: Vec<(PathBuf, String)> = files()
        .map(|file| fs::read_to_string(&file).map(|text| (file, text.trim().to_owned())))
        .collect::<io::Result<_>>()?;
    let counted = Path::new(FOLDER).join("nf_conntrack_acct");
    if before.iter().all(|(file, _)| *file != counted) {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the kernel counts nothing (no net.netfilter.nf_conntrack_acct): load the module nf_conntrack",
        ));
    }
    keep(&state.join(COUNTING_FILE), &before)?;
    for (file, value) in &before {
        if value == "0" {
            fs::write(file, "1")?;
        }
    }
    Ok(())
}

/// Writes down what was set, unless it stands there already.
fn keep(file: &Path, before: &[(PathBuf, String)]) -> io::Result<()> {
    let mut options = fs::File::options();
    let made = options.write(true).create_new(true).mode(0o600).open(file);
    let mut made = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    for (setting, value) in before {
        let name = setting.file_name().unwrap_or_default();
        writeln!(made, "{} {value}", name.display())?;
    }
    Ok(())
}

/// Puts back what was set before the first run; nothing where that is not known.
///
/// # Errors
/// The system refuses.
pub fn put_back(state: &Path) -> io::Result<()> {
    let file = state.join(COUNTING_FILE);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    for line in text.lines() {
        // Only what this program sets: the file is no way to write others.
        let known = SETTINGS.iter().find_map(|name| {
            let value = line.strip_prefix(name)?.trim();
            matches!(value, "0" | "1").then_some((name, value))
        });
        if let Some((name, value)) = known {
            fs::write(Path::new(FOLDER).join(name), value)?;
        }
    }
    fs::remove_file(file)
}
