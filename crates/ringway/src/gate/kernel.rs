//! The in-kernel path of `gate up`: had or done without, and told what it need not ask about.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ringway_gateway::SignatureSet;
use ringway_gateway::classify::Bounds;
use ringway_gateway::linux::border::Border;
use ringway_gateway::linux::kernel::early::{Place, Placed};
use ringway_gateway::linux::kernel::features::unverified;
use ringway_gateway::linux::kernel::judge::Judge;
use ringway_gateway::linux::kernel::parts::{Part, Wanted, Without};
use ringway_gateway::linux::kernel::{Kernel, KernelError};
use ringway_gateway::policy::{Failure as WhenItFails, Policy};
use ringway_gateway::triage::Triage;

use crate::cli::{CachePlace, PathChoice, UpArgs};
use ringway_terminal::Failure;

/// The in-kernel path, loaded and not yet at work, if it is wanted and can be had. Loading it takes
/// capabilities that the gateway needs for nothing else.
pub(crate) fn in_kernel(args: &UpArgs) -> Result<Option<Kernel>, Failure> {
    let wanted = match args.path {
        PathChoice::User => return Ok(None),
        PathChoice::Kernel => Wanted::All,
        PathChoice::Auto => Wanted::AsFarAsPossible,
    };
    match Kernel::load(&args.bpffs.bpffs, wanted) {
        Ok(kernel) => Ok(Some(kernel)),
        Err(refused) if wanted == Wanted::All => Err(missing(&refused)),
        Err(refused) => {
            tracing::warn!(%refused, "no in-kernel path: user space does without");
            Ok(None)
        }
    }
}

fn missing(refused: &KernelError) -> Failure {
    Failure::failed(format_args!(
        "there is no in-kernel path: {refused} (`ringway gate doctor` looks for all that it needs)"
    ))
}

/// Puts it to work, and answers where the connection cache is; without one, what an earlier run may
/// have left goes.
pub(super) fn attach(
    kernel: Option<&mut Kernel>,
    border: &Border,
    (bpffs, place): (&Path, CachePlace),
) -> Result<Vec<Placed>, Failure> {
    let place = match place {
        CachePlace::Auto => Place::Auto,
        CachePlace::Tc => Place::Tc,
        CachePlace::Xdp => Place::Xdp,
    };
    match kernel {
        Some(kernel) => {
            let attached = kernel.attach(border, bpffs, place);
            for Without { part, why } in kernel.without() {
                tracing::warn!(%part, %why, "user space does without this part of the in-kernel path");
            }
            attached.map_err(|refused| missing(&refused))
        }
        None => {
            if let Err(refused) = Kernel::detach(border, bpffs) {
                tracing::warn!(%refused, "what an earlier run left of the in-kernel path is not all gone");
            }
            Ok(Vec::new())
        }
    }
}

/// How the in-kernel path is told what it need not ask about.
#[derive(Clone, Debug)]
pub(super) struct InKernel {
    judge: Arc<Mutex<Judge>>,
    signatures: Arc<SignatureSet>,
    packets: u8,
}

impl InKernel {
    /// `None`: everything is asked about, with this gateway's settings.
    pub(super) fn new(kernel: &mut Kernel, set: &SignatureSet, args: &UpArgs) -> Option<InKernel> {
        if !kernel.has(Part::Passing) {
            return None;
        }
        if let Some(why) = unverified() {
            tracing::warn!(%why, "the kernel asks about every undecided packet");
            return None;
        }
        Some(InKernel {
            judge: Arc::new(Mutex::new(kernel.take_judge()?)),
            signatures: Arc::new(set.clone()),
            packets: args.look.packets,
        })
    }

    /// Tells the kernel; answers whether it may pass anything by this policy.
    pub(super) fn put(&self, policy: &Policy) -> Result<bool, Failure> {
        let triage = match Triage::new(&self.signatures, policy) {
            Ok(triage) if triage.asks_everything() => {
                tracing::info!(
                    "the policy may concern every flow: the kernel asks about all of them"
                );
                None
            }
            Ok(triage) => Some(triage.with_bounds(Bounds {
                packets: self.packets,
            })),
            Err(why) => {
                tracing::warn!(%why, "the kernel asks about all flows");
                None
            }
        };
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = policy.failure() == WhenItFails::Closed;
        judge
            .put(triage.as_ref(), closed)
            .map_err(Failure::failed)?;
        Ok(triage.is_some())
    }
}
