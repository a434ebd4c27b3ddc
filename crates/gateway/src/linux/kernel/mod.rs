//! The in-kernel path: what the kernel can decide never leaves it.
//!
//! | module | does |
//! |---|---|
//! | [`attach`] | the connection cache at an interface: in its driver, or not |
//! | [`features`] | what this kernel and this machine have of what it needs |
//! | [`ingress`] | the connection cache behind it |
//! | [`backlog`] | what had passed in a flow before user space was asked about it |
//! | `tc_hooks` | attaches the connection cache while a client is blocked |
//! | [`judge`] | what need not be asked about: signatures and policy, compiled |
//! | `layout` | numbers and the form of maps, for the gateway and the programs |
//! | [`parts`] | its parts, each of which goes without the others |
//! | [`pinned`] | where programs and maps outlive a run |
//! | [`refused`] | the connection cache: new connections that match a blocked one end before anything is spent on them |
//!
//! The programs (`../bpf`) are compiled in the build and loaded here. They and their maps are
//! pinned below `/sys/fs/bpf`, so that the next run of the gateway goes on with what they know.

pub mod attach;
pub mod backlog;
pub mod features;
pub mod ingress;
pub mod judge;
#[expect(dead_code, reason = "the build uses the rest")]
mod layout;
pub mod parts;
pub mod pinned;
pub mod refused;
mod tc_hooks;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aya::maps::{Array, MapData, MapError, PerCpuArray};
use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfError, EbpfLoader};

pub use self::attach::unhook;
use self::attach::{AttachPoint, AttachedAt};
use self::backlog::FlowBacklog;
use self::judge::Judge;
use self::layout::{Form as _, Numbers, Total};
use self::parts::{MissingPart, Part, Wanted};
use self::pinned::{folder, folders, remove_all, remove_others};
pub use self::pinned::{mount, remove};
use self::refused::{KernelCache, Refusals};
use self::tc_hooks::{Hooks, TcHookManager};
use super::border::Border;
use super::tool::ToolError;
use crate::limits::{self, BEAT, MAX_TRIAGE_INTERFACES, PULSE};
use crate::triage::flags;

/// The compiled programs; empty where the build had no clang.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/border.bpf.o"));

/// Where the kernel's file system of programs and maps usually is.
pub const BPFFS: &str = "/sys/fs/bpf";
/// The program that refuses new connections that match a blocked one.
const REFUSE: &str = "refuse";
/// The same in an interface's driver.
const REFUSE_EARLY: &str = "refuse_early";
/// The same as a program that the packet filter's rules name.
pub(super) const REFUSE_NEW: &str = "refuse_new";
/// The programs that the packet filter's rules name: whether a packet passes unasked, and whether
/// that is all that need be seen of its connection.
pub(super) const TRIAGE: &str = "triage";
pub(super) const FINISHED: &str = "finished";

/// Why there is no in-kernel path.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It was built without.
    #[error(
        "this program was built without the in-kernel path, because clang or libbpf-dev was missing; build it again with both, or use `--path user`"
    )]
    NotBuilt,
    /// There is no file system for programs and maps.
    #[error(
        "{0} is no bpf file system and none can be mounted there ({1}); `mount -t bpf bpf {0}`, or use `--path user`"
    )]
    NoFileSystem(PathBuf, String),
    /// It can do none of its parts here.
    #[error("none of its parts can be had: {}", parts::reasons(.0))]
    Nothing(Vec<MissingPart>),
    /// The kernel refused.
    #[error("the kernel refused {0}: {1}")]
    Refused(&'static str, String),
    /// A tool refused.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// The programs and maps, loaded and attached.
pub struct Kernel {
    ebpf: Ebpf,
    folder: PathBuf,
    shared: SharedKernel,
    reports: Option<KernelReports>,
    judge: Option<Judge>,
    /// Why nothing of it can be in a driver.
    late: Option<String>,
    wanted: Wanted,
    without: Vec<MissingPart>,
    fresh: Fresh,
    /// Attaches the connection cache while a client is blocked.
    hooks: Option<TcHookManager>,
}

/// A folder that there was not before, and that goes if nothing comes of it: its maps are tens of
/// megabytes.
struct Fresh(Option<PathBuf>);

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            remove_all(folder);
        }
    }
}

/// What the loops of all queues have in common with the kernel.
#[derive(Clone, Debug)]
pub struct SharedKernel {
    /// Its connection cache.
    pub cache: KernelCache,
    /// Flows that it passed as far as it could.
    pub backlog: FlowBacklog,
}

/// What the kernel reports to one of the queues' loops.
#[derive(Debug)]
pub struct KernelReports {
    /// Calls that it refused.
    pub refusals: Refusals,
    /// Its counts.
    pub totals: Totals,
    /// Tells it that there is a gateway.
    pub heartbeat: Heartbeat,
}

/// Tells the kernel that there is a gateway, again and again, or it takes it for gone; and by which
/// interfaces packets come to the border, because one that goes and comes again has another number.
pub struct Heartbeat {
    alive: Array<MapData, u64>,
    interfaces: Interfaces,
    border: Option<Border>,
    /// When it is renewed next, since boot.
    next: Duration,
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeat").finish_non_exhaustive()
    }
}

impl Heartbeat {
    /// Tells it, if it is time to.
    pub fn beat(&mut self) {
        let now = refused::since_boot();
        if now >= self.next {
            // What it does not take makes it ask.
            let until = refused::nanoseconds(now.saturating_add(PULSE));
            self.alive.set(0, until, 0).ok();
            if let Some(border) = &self.border {
                self.interfaces.set(&border.numbers());
            }
            self.next = now.saturating_add(BEAT);
        }
    }
}

/// The numbers of the border's interfaces.
pub(super) struct Interfaces(Array<MapData, [u8; Numbers::BYTES]>);

impl Interfaces {
    /// Only packets that come by these are judged, across a bridge those that go by them; where
    /// there are more than [`MAX_TRIAGE_INTERFACES`], or none, all are.
    fn set(&mut self, numbers: &[u32]) {
        let mut interfaces = [0; MAX_TRIAGE_INTERFACES];
        if numbers.len() <= MAX_TRIAGE_INTERFACES {
            for (slot, number) in interfaces.iter_mut().zip(numbers) {
                *slot = *number;
            }
        }
        // What it does not take is written again.
        self.0.set(0, Numbers { interfaces }.bytes(), 0).ok();
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// Loads the programs, and takes up the maps of an earlier run of the same build. Nothing uses
    /// them before they are [attached](Self::attach). `bpffs`: where the bpf file system is,
    /// usually [`BPFFS`].
    ///
    /// # Errors
    /// See [`KernelError`]: what all parts take is missing, or something of what is `wanted`.
    pub fn load(bpffs: &Path, wanted: Wanted) -> Result<Self, KernelError> {
        if OBJECT.is_empty() {
            return Err(KernelError::NotBuilt);
        }
        mount(bpffs)?;
        let without = match wanted {
            Wanted::All => Vec::new(),
            // What cannot be attached would otherwise be found when the border is laid already.
            Wanted::AsFarAsPossible => features::without(&features::features(bpffs)),
        };
        if without.len() == Part::ALL.len() {
            return Err(KernelError::Nothing(without));
        }
        let folder = folder(bpffs);
        let fresh = Fresh((!folder.exists()).then(|| folder.clone()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| KernelError::NoFileSystem(bpffs.to_owned(), error.to_string()))?;
        let ebpf = load(&folder)?;
        let mut kernel = Self::of(ebpf, folder, wanted, without)?;
        kernel.fresh = fresh;
        for part in kernel.parts() {
            for name in part.programs() {
                let loaded = load_program(&mut kernel.ebpf, name);
                loaded.or_else(|refused| kernel.lacks(part, refused))?;
            }
        }
        if kernel.parts().is_empty() {
            return Err(KernelError::Nothing(kernel.without));
        }
        if kernel.has(Part::CacheAtTc) {
            let early = load_program(&mut kernel.ebpf, REFUSE_EARLY);
            kernel.late = early.err().map(|refused| refused.to_string());
        }
        Ok(kernel)
    }

    /// The parts that there are.
    fn parts(&self) -> Vec<Part> {
        let parts = Part::ALL.into_iter().filter(|part| self.has(*part));
        parts.collect()
    }

    /// Whether there is this part.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.without.iter().all(|without| without.part != part)
    }

    /// The parts that there are not; all are there if [`Wanted::All`] was.
    #[must_use]
    pub fn without(&self) -> &[MissingPart] {
        &self.without
    }

    /// How much of it there has to be.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// A part cannot be had: it is done without, or nothing is, as is wanted.
    fn lacks(&mut self, part: Part, refused: KernelError) -> Result<(), KernelError> {
        if self.wanted == Wanted::All {
            return Err(refused);
        }
        if self.has(part) {
            let why = refused.to_string();
            self.without.push(MissingPart { part, why });
        }
        Ok(())
    }

    /// Attaches the programs to the border, in place of an earlier run's: the connection cache at
    /// this hook of each interface. Returns where it is; nowhere, if it cannot be had and need
    /// not.
    ///
    /// # Errors
    /// See [`KernelError`]; nothing is left attached then.
    pub fn attach(
        &mut self,
        border: &Border,
        bpffs: &Path,
        point: AttachPoint,
    ) -> Result<Vec<AttachedAt>, KernelError> {
        let attached = self.pin(border, bpffs).and_then(|()| {
            let put = self.put(border, point);
            let placed = put.or_else(|refused| {
                let done_without = self.lacks(Part::CacheAtTc, refused);
                done_without.map(|()| Vec::new())
            })?;
            if !self.has(Part::CacheAtTc) {
                for interface in border.all() {
                    unhook(interface, bpffs)?;
                }
            }
            Ok(placed)
        });
        // What is attached outlives the process that has attached it.
        self.fresh.0 = None;
        match attached {
            Ok(placed) => {
                remove_others(bpffs);
                Ok(placed)
            }
            Err(refused) => {
                // What was put in before the failure goes out again; the reason is what counts.
                Self::detach(border, bpffs).ok();
                if self.wanted == Wanted::All {
                    return Err(refused);
                }
                let why = refused.to_string();
                for part in self.parts() {
                    let why = why.clone();
                    self.without.push(MissingPart { part, why });
                }
                Ok(Vec::new())
            }
        }
    }

    /// Pins the programs in place of an earlier run's.
    fn pin(&mut self, border: &Border, bpffs: &Path) -> Result<(), KernelError> {
        for interface in border.all() {
            // As long as what is pinned shows which is ours.
            attach::detach_xdp(interface, &folders(bpffs))?;
        }
        let parts = self.parts();
        let mut programs: Vec<&'static str> = parts
            .iter()
            .flat_map(|part| part.programs())
            .copied()
            .collect();
        if self.has(Part::CacheAtTc) && self.late.is_none() {
            programs.push(REFUSE_EARLY);
        }
        for name in programs {
            pin(&mut self.ebpf, name, &self.folder.join(name))?;
        }
        Ok(())
    }

    /// Puts the connection cache at the interfaces.
    fn put(&mut self, border: &Border, point: AttachPoint) -> Result<Vec<AttachedAt>, KernelError> {
        if !self.has(Part::CacheAtTc) {
            return Ok(Vec::new());
        }
        ingress::take_out_others(&border.numbers(), &self.folder);
        let placed = border
            .all()
            .map(|interface| attach::put(interface, &self.folder, point, self.late.as_deref()));
        let placed: Vec<AttachedAt> = placed.collect::<Result<_, _>>()?;
        let listed = placed.iter().filter(|placed| placed.while_needed);
        let listed: Vec<String> = listed.map(|placed| placed.interface.clone()).collect();
        if !listed.is_empty() {
            let cache = self.shared.cache.clone();
            let hooks = Hooks::new(listed, self.folder.clone(), cache);
            self.hooks = Some(TcHookManager::start(hooks)?);
        }
        Ok(placed)
    }

    /// Where the connection cache stands does not change any more.
    pub fn rest(&mut self) {
        self.hooks = None;
    }

    fn of(
        mut ebpf: Ebpf,
        folder: PathBuf,
        wanted: Wanted,
        without: Vec<MissingPart>,
    ) -> Result<Self, KernelError> {
        let mut take = |name: &'static str| {
            let missing = || KernelError::Refused(name, "it is not there".to_owned());
            ebpf.take_map(name).ok_or_else(missing)
        };
        let refused = |error: MapError| KernelError::Refused("a map", error_text(&error));
        let blocked = take("blocked")?.try_into().map_err(refused)?;
        let refusals = take("refusals")?.try_into().map_err(refused)?;
        let handed = take("handed")?.try_into().map_err(refused)?;
        let totals = take("totals")?.try_into().map_err(refused)?;
        let in_use = take("in_use")?.try_into().map_err(refused)?;
        let triages = take("triages")?.try_into().map_err(refused)?;
        let cells = take("cells")?.try_into().map_err(refused)?;
        let ports = take("ports")?.try_into().map_err(refused)?;
        let networks = take("networks")?.try_into().map_err(refused)?;
        let alive = take("alive")?.try_into().map_err(refused)?;
        let interfaces = Interfaces(take("border")?.try_into().map_err(refused)?);
        Ok(Self {
            ebpf,
            folder,
            shared: SharedKernel {
                cache: KernelCache::new(blocked),
                backlog: FlowBacklog::new(handed),
            },
            reports: Some(KernelReports {
                refusals: Refusals::new(refusals),
                totals: Totals(totals),
                heartbeat: Heartbeat {
                    alive,
                    interfaces,
                    border: None,
                    next: Duration::ZERO,
                },
            }),
            judge: Some(Judge::new(in_use, triages, cells, ports, networks)),
            late: None,
            wanted,
            without,
            fresh: Fresh(None),
            hooks: None,
        })
    }

    /// Takes everything out, also what another run left: the filters at these interfaces, the
    /// programs and the maps.
    ///
    /// # Errors
    /// tc is missing or refuses.
    pub fn detach(border: &Border, bpffs: &Path) -> Result<(), KernelError> {
        let unhooked: Vec<_> = border.all().map(|each| unhook(each, bpffs)).collect();
        remove(bpffs);
        // One interface that is in the way leaves no other behind.
        unhooked.into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }

    /// What each queue's loop has in common with it.
    #[must_use]
    pub fn shared(&self) -> SharedKernel {
        self.shared.clone()
    }

    /// Its reports at this border, for one of them.
    pub fn take_reports(&mut self, border: &Border) -> Option<KernelReports> {
        let mut reports = self.reports.take()?;
        reports.heartbeat.border = Some(border.clone());
        reports.heartbeat.beat();
        Some(reports)
    }

    /// What it need not ask about, for the part that puts policies in force.
    pub fn take_judge(&mut self) -> Option<Judge> {
        self.judge.take()
    }

    /// Where its programs and maps are pinned.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The kernel's counts.
pub struct Totals(PerCpuArray<MapData, u64>);

impl fmt::Debug for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Totals").finish_non_exhaustive()
    }
}

/// What the kernel has done by itself since its programs were attached first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InKernel {
    /// Calls like a blocked one that were dropped.
    pub refused: u64,
    /// Packets of undecided flows that passed unasked.
    pub passed: u64,
    /// Packets of flows of which the kernel had seen enough: what followed them was passed by its
    /// connection's mark.
    pub finished: u64,
    /// Flows that came to user space without their beginning, because it read too slowly.
    pub lost: u64,
}

impl Totals {
    /// All of them.
    #[must_use]
    pub fn get(&self) -> InKernel {
        let sum = |total: Total| {
            let values = self.0.get(&total.index(), 0);
            values.map_or(0, |values| {
                values
                    .iter()
                    .fold(0, |sum: u64, value| sum.saturating_add(*value))
            })
        };
        InKernel {
            refused: sum(Total::Refused),
            passed: sum(Total::Passed),
            finished: sum(Total::Finished),
            lost: sum(Total::Lost),
        }
    }
}

/// Loads the object with the maps that are pinned there.
fn load(folder: &Path) -> Result<Ebpf, KernelError> {
    let mut loader = EbpfLoader::new();
    let loaded = loader.default_map_pin_directory(folder).load(OBJECT);
    loaded.map_err(|error: EbpfError| {
        KernelError::Refused("the programs and their maps", error_text(&error))
    })
}

/// Loads a program into the kernel.
fn load_program(ebpf: &mut Ebpf, name: &'static str) -> Result<(), KernelError> {
    let loaded = match ebpf.program_mut(name) {
        Some(Program::SchedClassifier(program)) => program.load(),
        Some(Program::SocketFilter(program)) => program.load(),
        Some(Program::Xdp(program)) => program.load(),
        _ => Err(ProgramError::NotLoaded),
    };
    loaded.map_err(|error| KernelError::Refused(name, error_text(&error)))
}

/// Pins a program that is loaded, in place of an earlier run's, which its hooks still hold.
fn pin(ebpf: &mut Ebpf, name: &'static str, path: &Path) -> Result<(), KernelError> {
    std::fs::remove_file(path).ok();
    let pinned = match ebpf.program_mut(name) {
        Some(Program::SchedClassifier(program)) => program.pin(path),
        Some(Program::SocketFilter(program)) => program.pin(path),
        Some(Program::Xdp(program)) => program.pin(path),
        _ => return Err(KernelError::Refused(name, "it is not there".to_owned())),
    };
    pinned.map_err(|error| KernelError::Refused(name, error_text(&error)))
}

/// What an error says, with what it comes of.
fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    // The verifier's log is long; its last lines say why, but for those that say what it took.
    let took = |line: &str| {
        ["verification time", "stack depth", "processed "]
            .iter()
            .any(|begin| line.starts_with(begin))
    };
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !took(line))
        .collect();
    let last = lines.len().saturating_sub(3);
    lines.get(last..).unwrap_or_default().join("; ")
}

#[cfg(test)]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "small numbers of the tests' own"
)]
mod tests;
