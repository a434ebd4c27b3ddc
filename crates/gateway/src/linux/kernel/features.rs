//! What the in-kernel path needs, looked for one by one: kernels from 5.15 on are meant to do, some without parts of it.

use std::path::Path;

use aya::maps::MapType;
use aya::programs::ProgramType;
use aya::sys::{is_map_supported, is_program_supported};

use super::{OBJECT, mount};
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

/// The connection cache in the kernel.
const CACHE: &str = "connection cache";

/// Looks for all of it. Mounts the bpf file system, as the gateway does, where it is not mounted yet.
#[must_use]
pub fn features(bpffs: &Path) -> Vec<Feature> {
    let feature = |name, missing: Option<String>| Feature {
        name,
        needed_for: CACHE,
        missing,
    };
    let built = OBJECT
        .is_empty()
        .then(|| "this program was built without clang or libbpf-dev".to_owned());
    vec![
        feature("programs in this build", built),
        feature(
            "bpf file system",
            mount(bpffs).err().map(|error| error.to_string()),
        ),
        feature("map LRU_HASH", map(MapType::LruHash)),
        feature("map PERCPU_ARRAY", map(MapType::PerCpuArray)),
        feature("map RINGBUF (Linux 5.8)", map(MapType::RingBuf)),
        feature("map LPM_TRIE", map(MapType::LpmTrie)),
        feature("program SCHED_CLS", program(ProgramType::SchedClassifier)),
        feature(
            "tc with clsact",
            TC.run(&["-V"], "").err().map(|error| error.to_string()),
        ),
    ]
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
