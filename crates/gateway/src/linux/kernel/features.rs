//! What the in-kernel path needs, looked for one by one: kernels from 5.15 on are meant to do, some
//! without parts of it.
//!
//! What a kernel says it has is not enough: its verifier may refuse a program, and modules of the
//! packet filter may be missing. So the programs are loaded and put to work as the gateway does, in
//! a network namespace of their own that has no packets.

use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::maps::MapType;
use aya::programs::ProgramType;
use aya::sys::{is_map_supported, is_program_supported};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::ingress;
use super::parts::{MissingPart, Part};
use super::pinned::trial;
use super::{
    FINISHED, KernelError, OBJECT, REFUSE, REFUSE_EARLY, REFUSE_NEW, TRIAGE, load, load_program,
    mount, pin, remove_all,
};
use crate::linux::border::Border;
use crate::linux::marks::Marks;
use crate::linux::rules::{Programs, Rules};
use crate::linux::shaper::TC;

/// Something that it needs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Feature {
    /// What it is.
    pub name: &'static str,
    /// The part of the in-kernel path that needs it.
    pub needed_for: &'static str,
    /// Why it is not there; `None`: it is.
    pub missing: Option<String>,
    /// Whether it is there was not found out, and `missing` says why.
    pub untried: bool,
    /// The in-kernel path does without it.
    pub optional: bool,
}

impl Feature {
    fn is_needed_for(&self, part: Part) -> bool {
        let needed_for = self.needed_for;
        let is_for_it = match part {
            Part::CacheAtTc => needed_for == AT_TC,
            Part::CacheInFilter => [IN_FILTER, FILTER].contains(&needed_for),
            Part::Passing => [PASSING, FILTER].contains(&needed_for),
        };
        (is_for_it || needed_for == ALL) && !self.optional
    }
}

/// All of the in-kernel path.
const ALL: &str = "all of it";
/// The connection cache in front of the packet filter.
const AT_TC: &str = "connection cache at tc";
/// The same at less cost; it does without.
const CHEAPER: &str = "cheaper connection cache at tc";
/// The same in kernels that have no list of programs.
const WITHOUT_LIST: &str = "connection cache at tc without tcx";
/// The same in interfaces' drivers; it does without.
const EARLY: &str = "connection cache in drivers";
/// The same in the packet filter.
const IN_FILTER: &str = "connection cache in the packet filter";
/// What goes on without a question to user space.
const PASSING: &str = "passing unasked";
/// All that the packet filter asks.
const FILTER: &str = "what the packet filter asks";

/// What this machine cannot do of the in-kernel path, each with the first thing that it lacks. What
/// was not tried may be there.
#[must_use]
pub fn without(features: &[Feature]) -> Vec<MissingPart> {
    let lacks = |part| {
        let mut needed = features.iter().filter(|need| need.is_needed_for(part));
        needed.find_map(|need| {
            let missing = need.missing.as_ref().filter(|_| !need.untried)?;
            Some(MissingPart {
                part,
                why: format!("{}: {missing}", need.name),
            })
        })
    };
    Part::ALL.into_iter().filter_map(lacks).collect()
}

/// Whether netfilter looks at checksums, and where it says so.
const CHECKSUMS: &str = "checksums verified (nf_conntrack_checksum)";
const CHECKSUMS_AT: &str = "/proc/sys/net/netfilter/nf_conntrack_checksum";

/// Why nothing may pass unasked: the programs take for said what the receiver would discard.
#[must_use]
pub fn unverified() -> Option<String> {
    // Before connections are tracked it is not there, and then it is on.
    let setting = std::fs::read_to_string(CHECKSUMS_AT).ok()?;
    (setting.trim() == "0").then(|| {
        "connection tracking verifies no checksums; `sysctl net.netfilter.nf_conntrack_checksum=1` makes it".to_owned()
    })
}

/// Whether something is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    There,
    Missing(String),
    /// It was not found out, and why.
    Untried(String),
}

impl Found {
    /// What cannot be tried without a program that is not there.
    fn without_program() -> Found {
        Found::Untried("not tried without its program".to_owned())
    }

    fn is_there(&self) -> bool {
        *self == Found::There
    }
}

impl<T, E: ToString> From<Result<T, E>> for Found {
    fn from(tried: Result<T, E>) -> Found {
        match tried {
            Ok(_) => Found::There,
            Err(error) => Found::Missing(error.to_string()),
        }
    }
}

impl From<Option<String>> for Found {
    fn from(missing: Option<String>) -> Found {
        missing.map_or(Found::There, Found::Missing)
    }
}

/// Where it is tried there is this interface, and never another.
const INTERFACE: &str = "lo";

/// Looks for all of it. Mounts the bpf file system, as the gateway does, where it is not mounted
/// yet.
#[must_use]
pub fn features(bpffs: &Path) -> Vec<Feature> {
    let built = OBJECT
        .is_empty()
        .then(|| "this program was built without clang or libbpf-dev".to_owned());
    let mounted: Found = mount(bpffs).into();
    let can_try = built.is_none() && mounted.is_there();
    let mut features = vec![
        feature("programs in this build", ALL, built),
        feature("bpf file system", ALL, mounted),
        feature("map LRU_HASH", ALL, map(MapType::LruHash)),
        feature("map PERCPU_ARRAY", ALL, map(MapType::PerCpuArray)),
        feature("map RINGBUF (Linux 5.8)", ALL, map(MapType::RingBuf)),
        feature("map LPM_TRIE", PASSING, map(MapType::LpmTrie)),
        feature(
            "program SCHED_CLS",
            AT_TC,
            program(ProgramType::SchedClassifier),
        ),
        feature(
            "program SOCKET_FILTER",
            FILTER,
            program(ProgramType::SocketFilter),
        ),
        feature(CHECKSUMS, PASSING, unverified()),
    ];
    if can_try {
        features.extend(Trial::new(bpffs).features());
    } else {
        features.push(tool(AT_TC));
    }
    features
}

/// The programs, loaded to be tried.
struct Trial {
    folder: PathBuf,
    loaded: Result<Ebpf, KernelError>,
}

impl Drop for Trial {
    fn drop(&mut self) {
        remove_all(&self.folder);
    }
}

impl Trial {
    fn new(bpffs: &Path) -> Self {
        let folder = trial(bpffs, std::process::id());
        let loaded = std::fs::create_dir_all(&folder)
            .map_err(|error| KernelError::NoFileSystem(bpffs.to_owned(), error.to_string()))
            .and_then(|()| load(&folder));
        Self { folder, loaded }
    }

    fn features(&mut self) -> Vec<Feature> {
        let maps: Found = (self.loaded.as_ref().map(drop)).into();
        let [refuse, refuse_early, refuse_new, triage, finished] =
            [REFUSE, REFUSE_EARLY, REFUSE_NEW, TRIAGE, FINISHED].map(|name| self.put_in(name));
        let matched = [&refuse_new, &triage, &finished]
            .into_iter()
            .all(Found::is_there);
        let [list, clsact, filter, rules] = self.attach(refuse.is_there(), matched);
        let by_filter = if list.is_there() { WITHOUT_LIST } else { AT_TC };
        vec![
            feature("maps as the programs have them", ALL, maps),
            feature("program `refuse` (Linux 5.12)", AT_TC, refuse),
            feature("program `refuse_early` (Linux 5.12)", EARLY, refuse_early),
            feature("program `refuse_new` (Linux 5.12)", IN_FILTER, refuse_new),
            feature("program `triage` (Linux 5.12)", PASSING, triage),
            feature("program `finished`", PASSING, finished),
            feature("tc's list of programs (tcx, Linux 6.6)", CHEAPER, list),
            tool(by_filter),
            feature("tc's clsact (sch_ingress)", by_filter, clsact),
            feature("tc's filter bpf (cls_bpf)", by_filter, filter),
            feature("packet filter's match bpf (xt_bpf)", FILTER, rules),
        ]
    }

    /// Loads and pins a program.
    fn put_in(&mut self, name: &'static str) -> Found {
        let Ok(ebpf) = self.loaded.as_mut() else {
            return Found::without_program();
        };
        load_program(ebpf, name)
            .and_then(|()| pin(ebpf, name, &self.folder.join(name)))
            .into()
    }

    /// Attaches them, apart from the machine's own interfaces and rules, as far as they are there:
    /// the `filter` at tc, and those that the packet filter `matches` by. Returns whether tc's
    /// list, `clsact`, the filter at it, and the packet filter's match are there.
    fn attach(&self, filter: bool, matches: bool) -> [Found; 4] {
        let tries = || {
            // SAFETY: only sharing file descriptors could make this unsound, and that goes on.
            #[expect(unsafe_code, reason = "the thread leaves the network and nothing else")]
            let apart = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
            if let Err(error) = apart {
                let why = format!("not tried: no network namespace ({error}); it takes root");
                return [(); 4].map(|()| Found::Untried(why.clone()));
            }
            let clsact = TC.run(&["qdisc", "add", "dev", INTERFACE, "clsact"], "");
            let tried = |there, run: &dyn Fn() -> Found| {
                if there {
                    run()
                } else {
                    Found::without_program()
                }
            };
            let (program, place) = (self.folder.join(REFUSE), self.folder.join("place"));
            [
                tried(filter, &|| {
                    ingress::list(INTERFACE, &self.folder, &place).into()
                }),
                clsact.into(),
                tried(filter, &|| ingress::filter(INTERFACE, &program).into()),
                tried(matches, &|| rules(&self.folder).set_up().into()),
            ]
        };
        std::thread::scope(|scope| scope.spawn(tries).join()).unwrap_or_else(|_| {
            [(); 4].map(|()| Found::Untried("it could not be tried".to_owned()))
        })
    }
}

/// Rules that ask the programs.
fn rules(folder: &Path) -> Rules {
    let border = Border {
        inside: vec![INTERFACE.to_owned()],
        outside: vec!["outside".to_owned()],
        bridged: false,
    };
    Rules {
        border,
        marks: Marks::default(),
        queue: 0,
        queues: 1,
        fail_open: true,
        classes: 0,
        shares: false,
        programs: Some(Programs {
            folder: folder.to_owned(),
            needed: true,
        }),
        refuses: true,
        triage: true,
        drops_other: false,
    }
}

/// The program `tc`.
fn tool(needed_for: &'static str) -> Feature {
    feature("tc", needed_for, TC.run(&["-V"], ""))
}

fn feature(name: &'static str, needed_for: &'static str, found: impl Into<Found>) -> Feature {
    let (missing, untried) = match found.into() {
        Found::There => (None, false),
        Found::Missing(why) => (Some(why), false),
        Found::Untried(why) => (Some(why), true),
    };
    Feature {
        name,
        needed_for,
        missing,
        untried,
        optional: [EARLY, CHEAPER, WITHOUT_LIST].contains(&needed_for) || name == CHECKSUMS,
    }
}

fn map(kind: MapType) -> Found {
    supported(is_map_supported(kind))
}

fn program(kind: ProgramType) -> Found {
    supported(is_program_supported(kind))
}

fn supported<E: ToString>(supported: Result<bool, E>) -> Found {
    match supported {
        Ok(true) => Found::There,
        Ok(false) => Found::Missing("this kernel does not have it".to_owned()),
        Err(why) => Found::Untried(format!(
            "{}; it takes root, or CAP_BPF and CAP_NET_ADMIN",
            why.to_string()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ALL, AT_TC, CHEAPER, CHECKSUMS, EARLY, FILTER, Found, IN_FILTER, PASSING, Part,
        WITHOUT_LIST, feature, without,
    };

    fn lacking(name: &'static str, needed_for: &'static str) -> Vec<Part> {
        let here = feature("here", ALL, Found::There);
        let unknown = feature("unknown", ALL, Found::Untried("not root".to_owned()));
        let missing = feature(name, needed_for, Found::Missing("module".to_owned()));
        let lacking = without(&[here, unknown, missing]);
        for lack in &lacking {
            assert_eq!(lack.why, format!("{name}: module"));
        }
        lacking.into_iter().map(|lack| lack.part).collect()
    }

    #[test]
    fn one_missing_part_leaves_the_others() {
        use Part::{CacheAtTc, CacheInFilter, Passing};
        for (needed_for, parts) in [
            (ALL, [CacheAtTc, CacheInFilter, Passing].as_slice()),
            (AT_TC, &[CacheAtTc]),
            (IN_FILTER, &[CacheInFilter]),
            (FILTER, &[CacheInFilter, Passing]),
            (PASSING, &[Passing]),
            (EARLY, &[]),
            (CHEAPER, &[]),
            (WITHOUT_LIST, &[]),
        ] {
            assert_eq!(lacking("it", needed_for), parts, "{needed_for}");
        }
        assert!(lacking(CHECKSUMS, PASSING).is_empty());
    }
}
