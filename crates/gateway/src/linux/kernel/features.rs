//! What the in-kernel path needs, looked for one by one: kernels from 5.15 on are meant to do, some without parts of it.
//!
//! What a kernel says it has is not enough: its verifier may refuse a program, and modules of the packet filter may be missing. So
//! the programs are loaded and put to work as the gateway does, in a network namespace of their own that has no packets.

use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::maps::MapType;
use aya::programs::ProgramType;
use aya::sys::{is_map_supported, is_program_supported};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::early::hook;
use super::{
    FINISHED, KernelError, OBJECT, REFUSE, REFUSE_EARLY, REFUSE_NEW, TRIAGE, load, load_program,
    mount, pin, remove_all,
};
use crate::linux::marks::Marks;
use crate::linux::rules::{Border, Rules};
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
}

impl Feature {
    /// The in-kernel path does without it.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.needed_for == EARLY || self.name == CHECKSUMS
    }
}

/// All of the in-kernel path.
const ALL: &str = "all of it";
/// The connection cache in the kernel.
const CACHE: &str = "connection cache";
/// The same in interfaces' drivers; it does without.
const EARLY: &str = "connection cache in drivers";
/// What nobody is asked about.
const PASSING: &str = "passing unasked";

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

/// What cannot be tried without its program.
const NOT_TRIED: &str = "not tried without its program";
/// Where it is tried there is this interface, and never another.
const INTERFACE: &str = "lo";

/// Looks for all of it. Mounts the bpf file system, as the gateway does, where it is not mounted yet.
#[must_use]
pub fn features(bpffs: &Path) -> Vec<Feature> {
    let built = OBJECT
        .is_empty()
        .then(|| "this program was built without clang or libbpf-dev".to_owned());
    let mounted = mount(bpffs).err().map(|error| error.to_string());
    let can_try = built.is_none() && mounted.is_none();
    let mut features = vec![
        feature("programs in this build", ALL, built),
        feature("bpf file system", ALL, mounted),
        feature("map LRU_HASH", ALL, map(MapType::LruHash)),
        feature("map PERCPU_ARRAY", ALL, map(MapType::PerCpuArray)),
        feature("map RINGBUF (Linux 5.8)", ALL, map(MapType::RingBuf)),
        feature("map LPM_TRIE", PASSING, map(MapType::LpmTrie)),
        feature(
            "program SCHED_CLS",
            CACHE,
            program(ProgramType::SchedClassifier),
        ),
        feature(
            "program SOCKET_FILTER",
            ALL,
            program(ProgramType::SocketFilter),
        ),
        feature("tc", CACHE, reason(TC.run(&["-V"], ""))),
        feature(CHECKSUMS, PASSING, unverified()),
    ];
    if can_try {
        features.extend(Trial::new(bpffs).features());
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
        let folder = bpffs.join(format!("ringway-doctor-{}", std::process::id()));
        let loaded = std::fs::create_dir_all(&folder)
            .map_err(|error| KernelError::NoFileSystem(bpffs.to_owned(), error.to_string()))
            .and_then(|()| load(&folder));
        Self { folder, loaded }
    }

    fn features(&mut self) -> Vec<Feature> {
        let maps = self.loaded.as_ref().err().map(ToString::to_string);
        let [refuse, refuse_early, refuse_new, triage, finished] =
            [REFUSE, REFUSE_EARLY, REFUSE_NEW, TRIAGE, FINISHED]
                .map(|name| self.put_in(name).err());
        let not_tried = |needs: &[&Option<String>]| {
            let missing = needs.iter().any(|refused| refused.is_some());
            missing.then(|| NOT_TRIED.to_owned())
        };
        let no_filter = not_tried(&[&refuse]);
        let no_match = not_tried(&[&refuse_new, &triage, &finished]);
        let [clsact, filter, rules] = self.attach(no_filter, no_match);
        vec![
            feature("maps as the programs have them", ALL, maps),
            feature("program `refuse` (Linux 5.12)", CACHE, refuse),
            feature("program `refuse_early` (Linux 5.12)", EARLY, refuse_early),
            feature("program `refuse_new` (Linux 5.12)", CACHE, refuse_new),
            feature("program `triage` (Linux 5.12)", PASSING, triage),
            feature("program `finished`", PASSING, finished),
            feature("tc's clsact (sch_ingress)", CACHE, clsact),
            feature("tc's filter bpf (cls_bpf)", CACHE, filter),
            feature("packet filter's match bpf (xt_bpf)", ALL, rules),
        ]
    }

    /// Loads and pins a program.
    fn put_in(&mut self, name: &'static str) -> Result<(), String> {
        let ebpf = self.loaded.as_mut().map_err(|_| NOT_TRIED.to_owned())?;
        load_program(ebpf, name)
            .and_then(|()| pin(ebpf, name, &self.folder.join(name)))
            .map_err(|error| error.to_string())
    }

    /// Attaches them, apart from the machine's own interfaces and rules. Answers what is missing of `clsact`, of the filter at
    /// it, and of the packet filter's match.
    fn attach(&self, no_filter: Option<String>, no_match: Option<String>) -> [Option<String>; 3] {
        let tries = || {
            // SAFETY: only sharing file descriptors could make this unsound, and that goes on.
            #[expect(unsafe_code, reason = "the thread leaves the network and nothing else")]
            let apart = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
            if let Err(error) = apart {
                let why = format!("not tried: no network namespace ({error}); it takes root");
                return [(); 3].map(|()| Some(why.clone()));
            }
            let clsact = TC.run(&["qdisc", "add", "dev", INTERFACE, "clsact"], "");
            [
                reason(clsact),
                no_filter.or_else(|| reason(hook(INTERFACE, &self.folder.join(REFUSE)))),
                no_match.or_else(|| reason(rules(&self.folder).set_up())),
            ]
        };
        std::thread::scope(|scope| scope.spawn(tries).join())
            .unwrap_or_else(|_| [(); 3].map(|()| Some("it could not be tried".to_owned())))
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
        programs: Some(folder.to_owned()),
        triage: true,
    }
}

fn feature(name: &'static str, needed_for: &'static str, missing: Option<String>) -> Feature {
    Feature {
        name,
        needed_for,
        missing,
    }
}

fn reason<T, E: ToString>(tried: Result<T, E>) -> Option<String> {
    tried.err().map(|error| error.to_string())
}

fn map(kind: MapType) -> Option<String> {
    missing(is_map_supported(kind).map_err(|error| error.to_string()))
}

fn program(kind: ProgramType) -> Option<String> {
    missing(is_program_supported(kind).map_err(|error| error.to_string()))
}

fn missing(supported: Result<bool, String>) -> Option<String> {
    match supported {
        Ok(true) => None,
        Ok(false) => Some("this kernel does not have it".to_owned()),
        Err(why) => Some(format!(
            "{why}; it takes root, or CAP_BPF and CAP_NET_ADMIN"
        )),
    }
}
