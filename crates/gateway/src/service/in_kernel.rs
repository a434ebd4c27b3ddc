//! The in-kernel path: had or done without, and what it need not ask about.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::SignatureSet;
use crate::classify::Bounds;
use crate::linux::border::Border;
use crate::linux::kernel::attach::{AttachPoint, AttachedAt};
use crate::linux::kernel::features::unverified;
use crate::linux::kernel::judge::Judge;
use crate::linux::kernel::parts::{MissingPart, Part, Wanted};
use crate::linux::kernel::{Kernel, KernelError};
use crate::policy::{Failure, Policy};
use crate::triage::Triage;

use super::error::ServiceError;

/// The in-kernel path, loaded and not yet at work, if it can be had; the bpf file system is at
/// `bpffs`. Loading it takes capabilities that the gateway needs for nothing else.
///
/// # Errors
/// All of it is wanted, and a part cannot be had.
pub fn load_kernel(bpffs: &Path, wanted: Wanted) -> Result<Option<Kernel>, ServiceError> {
    match Kernel::load(bpffs, wanted) {
        Ok(kernel) => Ok(Some(kernel)),
        Err(refused) if wanted == Wanted::All => Err(missing(&refused)),
        Err(refused) => {
            tracing::warn!(%refused, "no in-kernel path: user space does without");
            Ok(None)
        }
    }
}

fn missing(refused: &KernelError) -> ServiceError {
    ServiceError::failed(format_args!(
        "there is no in-kernel path: {refused} (`ringway gate doctor` looks for all that it needs)"
    ))
}

/// Puts it to work, and returns where the connection cache is; without one, what an earlier run
/// may have left goes.
pub(super) fn attach(
    kernel: Option<&mut Kernel>,
    border: &Border,
    bpffs: &Path,
    point: AttachPoint,
) -> Result<Vec<AttachedAt>, ServiceError> {
    match kernel {
        Some(kernel) => {
            let attached = kernel.attach(border, bpffs, point);
            for MissingPart { part, why } in kernel.without() {
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

/// Puts into the in-kernel path what it need not ask about.
#[derive(Clone, Debug)]
pub(super) struct InKernel {
    judge: Arc<Mutex<Judge>>,
    signatures: Arc<SignatureSet>,
    packets: u8,
}

impl InKernel {
    /// `None`: everything is asked about, with this gateway's settings.
    pub(super) fn new(kernel: &mut Kernel, set: &SignatureSet, packets: u8) -> Option<InKernel> {
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
            packets,
        })
    }

    /// Puts it into the kernel; returns whether it may pass anything by this policy.
    pub(super) fn put(&self, policy: &Policy) -> Result<bool, ServiceError> {
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
            // The policy is right all the same: user space decides all of it, only slower.
            Err(why) => {
                tracing::warn!(%why, "the kernel asks about all flows");
                None
            }
        };
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = policy.failure() == Failure::Closed;
        judge
            .put(triage.as_ref(), closed)
            .map_err(ServiceError::failed)?;
        Ok(triage.is_some())
    }
}
