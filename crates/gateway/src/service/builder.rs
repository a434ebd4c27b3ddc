//! From settings to a running gateway, step by step.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::accounts::AccountsThread;
use super::controller::{Controller, ControllerParts};
use super::error::ServiceError;
use super::event_writer::{EventWriter, StateConfig};
use super::history::{HistoryConfig, HistoryThread};
use super::in_kernel::attach;
use super::installation::Installation;
use super::policies::check_requirements;
use super::queue::{QueueThread, Work};
use super::quotas::QuotasConfig;
use super::running::{RunningGateway, remove_leftover};
use super::scanners::{ScannerConfig, Scanners};
use super::state_lock::StateLock;
use crate::SignatureSet;
use crate::accounting::FlowAccount;
use crate::classify::Classifier;
use crate::flow::{TableBounds, first_flow_number};
use crate::linux::kernel::Kernel;
use crate::linux::kernel::attach::{AttachPoint, AttachedAt};
use crate::linux::leftover;
use crate::linux::priority::reset_priority;
use crate::linux::terminate::Terminator;
use crate::policy::Policy;
use crate::verdict::{Gateway, Mode, Settings};

/// What flows are classified with.
#[derive(Debug)]
pub struct ClassifierConfig {
    /// The signatures, which policies name applications by.
    pub signatures: SignatureSet,
    /// The classifier of these signatures.
    pub classifier: Classifier,
    /// Packets of a flow that it looks at.
    pub packets: u8,
    /// Where members listen, and what they are called.
    pub members: Vec<(SocketAddr, String)>,
}

/// A policy, and the file that it came from.
#[derive(Clone, Debug)]
pub struct NamedPolicy {
    /// What it is called in messages: the file's path.
    pub name: String,
    /// The policy.
    pub policy: Arc<Policy>,
}

/// The border, and how its packets are queued.
#[derive(Clone, Debug)]
pub struct BorderConfig {
    /// Interfaces of the own network.
    pub inside: Vec<String>,
    /// Interfaces to others.
    pub outside: Vec<String>,
    /// They are ports of one bridge.
    pub bridged: bool,
    /// The first queue's number.
    pub queue: u16,
    /// How many there are, 1 to 64; each takes two numbers.
    pub queues: u16,
    /// The bits of packets' marks that are the gateway's.
    pub mask: u32,
    /// An in-kernel path is wanted, and may be there.
    pub in_kernel: bool,
    /// Where the bpf file system is.
    pub bpffs: PathBuf,
    /// Interfaces may be missing at the start, and come later.
    pub late: bool,
}

/// The first step: what is judged by which policy.
#[derive(Debug)]
pub struct GatewayBuilder {
    classifier: ClassifierConfig,
    policy: NamedPolicy,
    settings: Settings,
    scanners: Scanners,
}

/// The second step: the border is there, and the policy can be carried out at it.
#[derive(Debug)]
pub struct BorderedGateway {
    plan: GatewayBuilder,
    installation: Installation,
}

/// The third step: the folder of state is this gateway's alone.
#[derive(Debug)]
pub struct ClaimedGateway {
    plan: GatewayBuilder,
    installation: Installation,
    state: StateConfig,
    lock: StateLock,
    kernel: Option<Kernel>,
    cache_at: AttachPoint,
}

impl GatewayBuilder {
    /// A gateway without scanners.
    #[must_use]
    pub fn new(classifier: ClassifierConfig, policy: NamedPolicy, settings: Settings) -> Self {
        Self {
            classifier,
            policy,
            settings,
            scanners: Scanners::default(),
        }
    }

    /// Scans files with these. A clamd that does not answer now may come later, and until then the
    /// policy's `failure` decides.
    ///
    /// # Errors
    /// The rules cannot be read or compiled.
    pub fn scanners(self, config: &ScannerConfig) -> Result<Self, ServiceError> {
        let scanners = Scanners::new(config)?;
        Ok(Self { scanners, ..self })
    }

    /// Stands at this border.
    ///
    /// # Errors
    /// The policy asks for what there is not, such as a scanner; an interface is missing; queues or
    /// marks do not fit.
    pub fn border(self, config: BorderConfig) -> Result<BorderedGateway, ServiceError> {
        check_requirements(&self.policy.policy, self.scanners.are_there())?;
        let installation = Installation::new(config, &self.policy.policy)?;
        Ok(BorderedGateway {
            plan: self,
            installation,
        })
    }
}

impl BorderedGateway {
    /// Takes the folder of state, which is made if it is missing.
    ///
    /// # Errors
    /// Another gateway has it, or an earlier run has left rules that this one's would fight.
    pub fn claim(self, state: StateConfig) -> Result<ClaimedGateway, ServiceError> {
        make_folder(&state.folder)?;
        // Before anything that another gateway may be writing is tidied away.
        let lock = StateLock::take(&state.folder)?;
        self.installation.check_earlier_run()?;
        Ok(ClaimedGateway {
            plan: self.plan,
            installation: self.installation,
            state,
            lock,
            kernel: None,
            cache_at: AttachPoint::Auto,
        })
    }
}

impl ClaimedGateway {
    /// Uses this in-kernel path, with its connection cache at `cache_at`.
    #[must_use]
    pub fn kernel(self, kernel: Option<Kernel>, cache_at: AttachPoint) -> Self {
        Self {
            kernel,
            cache_at,
            ..self
        }
    }

    /// Starts the queues and puts rules in. From here on packets come.
    ///
    /// # Errors
    /// The system refuses a part; what was put in before goes out again.
    pub fn start(self) -> Result<RunningGateway, ServiceError> {
        let Self {
            plan,
            mut installation,
            state,
            lock,
            mut kernel,
            cache_at,
        } = self;
        let writer = EventWriter::start(&state)?;
        let history = HistoryThread::start(&HistoryConfig {
            folder: state.folder.clone(),
            keep: state.keep_flows,
            size: state.flows_size,
        })?;
        let (recorder, events) = (history.recorder(), writer.recorder());
        let accounts = AccountsThread::start(
            &installation.rules.border,
            &state.folder,
            state.flows_every,
            quotas(&plan, &installation, &writer),
            Box::new(move |flow: FlowAccount| {
                events.flow(flow.clone());
                recorder.record(flow);
            }),
        )?;
        let terminator = installation.bind_tproxy(&plan.policy.policy)?;
        if let Some(kernel) = &mut kernel {
            let classifier = &plan.classifier;
            installation.use_kernel(kernel, &classifier.signatures, classifier.packets);
        }
        let mut starting = Starting {
            plan: &plan,
            installation: &installation,
            writer: &writer,
            accounts: &accounts,
            history: &history,
            kernel: kernel.as_mut(),
        };
        let started = noted(&state.folder, || starting.start(terminator, cache_at));
        let (queues, cache) = started?;
        // What answers for packets has been started, and goes first as this thread did.
        reset_priority();
        let scans = plan.scanners.are_there();
        let controller = Controller::new(ControllerParts {
            queues: queues.iter().map(QueueThread::orders).collect(),
            written: writer.written(),
            accounts: Some(accounts.handle()),
            system: Box::new(installation.clone()),
            signatures: plan.classifier.signatures,
            mode: plan.settings.mode,
            scans,
            policy: plan.policy,
        });
        Ok(RunningGateway {
            controller: Arc::new(controller),
            watch: None,
            housekeeping: None,
            kernel,
            installation,
            queues,
            writer: Some(writer),
            accounts: Some(accounts),
            history: Some(history),
            cache,
            state: state.folder,
            ended: false,
            _lock: lock,
        })
    }
}

/// Puts rules in, and notes before what of the packet filter is there only for them.
fn noted<T>(
    state: &Path,
    put_in: impl FnOnce() -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    if let Err(error) = leftover::note(state) {
        tracing::debug!(%error, "empty chains of iptables will stay");
    }
    let put = put_in();
    if put.is_err() {
        remove_leftover(state);
    }
    put
}

/// By what quotas are counted, and who is told of those that are used up.
fn quotas(
    plan: &GatewayBuilder,
    installation: &Installation,
    writer: &EventWriter,
) -> QuotasConfig {
    let recorder = writer.recorder();
    QuotasConfig {
        zone: plan.settings.zone.clone(),
        policy: Arc::clone(&plan.policy.policy),
        mode: plan.settings.mode,
        marks: installation.rules.marks,
        record: Box::new(move |event| recorder.record(event)),
    }
}

/// What queues are started with.
struct Starting<'a> {
    plan: &'a GatewayBuilder,
    installation: &'a Installation,
    writer: &'a EventWriter,
    accounts: &'a AccountsThread,
    history: &'a HistoryThread,
    kernel: Option<&'a mut Kernel>,
}

impl Starting<'_> {
    /// Starts the queues, and then puts in what makes the kernel ask: from there on packets come,
    /// and there is a loop to take them.
    fn start(
        &mut self,
        terminator: Option<Terminator>,
        cache_at: AttachPoint,
    ) -> Result<(Vec<QueueThread>, Vec<AttachedAt>), ServiceError> {
        let (plan, installation) = (self.plan, self.installation);
        let border = &installation.rules.border;
        let attached = attach(
            self.kernel.as_deref_mut(),
            border,
            &installation.bpffs,
            cache_at,
        );
        if let (Some(kernel), Mode::Observe) = (&self.kernel, plan.settings.mode) {
            // While observing nothing is refused, whatever the run before has left.
            kernel.shared().cache.clear();
        }
        let set_up = attached.and_then(|placed| {
            let queues = self.queues(terminator)?;
            installation.put_in(&plan.policy.policy, plan.settings.mode)?;
            Ok((queues, placed))
        });
        if set_up.is_err() {
            if let Some(kernel) = &mut self.kernel {
                kernel.rest();
            }
            // What was put in before the failure goes out again; that it may fail too is no news
            // beside the first reason.
            installation.take_down().ok();
        }
        set_up
    }

    /// A gateway and a thread for each queue.
    fn queues(
        &mut self,
        mut terminator: Option<Terminator>,
    ) -> Result<Vec<QueueThread>, ServiceError> {
        let (plan, installation) = (self.plan, self.installation);
        let mut queues = Vec::new();
        let mut knowledge = None;
        let begun = SystemTime::now().duration_since(UNIX_EPOCH);
        let begun = begun.unwrap_or_default();
        for (number, (new, followed)) in (0_u64..).zip(installation.numbers()) {
            let mut gateway = Gateway::new(
                plan.classifier.classifier.clone(),
                TableBounds {
                    // No flow's number is another queue's too, nor one of an earlier run.
                    first_serial: first_flow_number(number, begun),
                    ..TableBounds::default()
                },
                Arc::clone(&plan.policy.policy),
                plan.settings.clone(),
            );
            for (endpoint, member) in &plan.classifier.members {
                gateway.know_member(*endpoint, member);
            }
            if number == 0 {
                gateway.know_torrents(self.history.torrent_names());
            }
            // Which queue gets a flow is chance.
            gateway.report_accounts();
            gateway.set_over_quota(self.accounts.over_quota());
            gateway.share(knowledge.get_or_insert_with(|| gateway.knowledge()));
            let work = Work {
                gateway,
                // The first one receives the kernel's reports.
                shared: self.kernel.as_mut().map(|kernel| {
                    let reports = kernel.take_reports(&installation.rules.border);
                    (kernel.shared(), reports)
                }),
                // All terminated connections are its own, too: what one of them announces it knows.
                terminator: terminator.take(),
                scans: plan.scanners.start()?,
                accountant: self.accounts.accountant(),
            };
            queues.push(QueueThread::start(
                new,
                followed,
                &installation.rules,
                work,
                self.writer,
            )?);
        }
        Ok(queues)
    }
}

/// Makes a folder that no other user may look into, and those above it.
///
/// # Errors
/// The system refuses.
pub fn make_folder(folder: &Path) -> Result<(), ServiceError> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| {
        let mend = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                ": run it as root, or name other folders (--state, --control)"
            }
            _ => "",
        };
        ServiceError::failed(format_args!("{}: {error}{mend}", folder.display()))
    })
}
