//! `ringway gate up`: the gateway at work, and `gate down`, which leaves nothing of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ringway_gateway::audit::Digester;
use ringway_gateway::flow::TableBounds;
use ringway_gateway::linux::confinement;
use ringway_gateway::linux::desk::ScanDesk;
use ringway_gateway::linux::files::FileDesk;
use ringway_gateway::linux::inject::Injector;
use ringway_gateway::linux::kernel::early::Placed;
use ringway_gateway::linux::kernel::parts::{Part, Without};
use ringway_gateway::linux::kernel::{Kernel, SharedKernel, Told as KernelTold, remove, unhook};
use ringway_gateway::linux::lanes::Lanes;
use ringway_gateway::linux::live::{Live, Order, Told};
use ringway_gateway::linux::priority::go_along;
use ringway_gateway::linux::rules::Rules;
use ringway_gateway::linux::shaper;
use ringway_gateway::linux::terminate::{Terminator, redirect};
use ringway_gateway::policy::{Action, Policy};
use ringway_gateway::verdict::{Gateway, Mode, Settings};
use ringway_node::control::ControlSocket;
use serde::Serialize;
use tokio::net::TcpListener;

use super::daemon::{Daemon, System as _};
use super::installation::Installation;
use super::kernel;
use super::lock::StateLock;
use super::replay::zone;
use super::scanners::Scanners;
use super::writer::{Places, Writer};
use super::{metrics, rules};
use crate::cli::{CachePlace, DownArgs, UpArgs};
use crate::limits::{AUDIT_FILE, RULES_LOOK, VAULT_FOLDER};
use crate::run::Context;
use crate::signals::{Signals, shutdown};
use ringway_terminal::Failure;

/// Puts the gateway to work until it is told to end. `kernel`: the in-kernel path, from
/// [`in_kernel`](super::kernel::in_kernel).
pub(crate) async fn up(
    context: &Context,
    args: &UpArgs,
    mut kernel: Option<Kernel>,
) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    let set = rules::signatures(&args.look.signatures)?;
    let sight = rules::sight(&set, &args.look)?;
    let policy = Arc::new(rules::policy(&args.policy, &set, context.output.json())?);
    let scanners = Scanners::new(args)?;
    can_be_carried_out(&policy, scanners.are_there())?;
    let mut installation = Installation::new(args, &policy)?;
    let settings = settings(args)?;
    make_folder(&args.state)?;
    // Before anything that another gateway may be writing is tidied away.
    let alone = StateLock::take(&args.state)?;
    installation.fits_what_was_left()?;
    let socket = control(&args.control).await?;
    let measured_at = match args.metrics {
        Some(address) => Some(listen(address, args.metrics_public).await?),
        None => None,
    };
    let writer = Writer::start(places(args))?;
    let terminator = installation.open_doors(&policy)?;
    if let Some(kernel) = &mut kernel {
        installation.use_kernel(kernel, &set, args);
    }
    let begun = Begun {
        policy: &policy,
        settings: &settings,
        writer: &writer,
    };
    let ways = Ways {
        kernel: kernel.as_mut(),
        terminator,
        cache_at: args.cache_at,
    };
    let (queues, cache) = begin(&scanners, &sight, (&installation, ways), &begun)?;
    // What answers for packets has been started, and goes first as this thread did.
    go_along();
    let daemon = Arc::new(Daemon::new(
        queues.iter().map(|queue| queue.orders.clone()).collect(),
        Arc::clone(&writer.written),
        Box::new(installation.clone()),
        set,
        (settings.mode, scanners.are_there()),
        (args.policy.display().to_string(), Arc::clone(&policy)),
    ));
    let without = kernel.as_ref().map(|kernel| installation.without(kernel));
    let told = ready(
        context,
        args,
        (&settings, without.as_deref(), &cache),
        &policy,
    );
    if told.is_ok() {
        tokio::select! {
            () = daemon.serve(&socket, args.rules_look.unwrap_or(RULES_LOOK)) => {}
            () = measured(measured_at, &daemon) => {}
            () = shutdown(signals, args.exit_with_stdin) => {}
        }
    }
    drop(socket);
    daemon.close();
    if let Some(kernel) = &mut kernel {
        kernel.rest();
    }
    // Of what nobody has heard of nothing stays.
    let stays = args.leave && told.is_ok();
    let removed = installation.end(stays);
    let ended = end_all(queues);
    drop(writer.sender);
    // The thread ends once the queues' senders are gone; a panic there was told already.
    writer.thread.join().ok();
    drop(alone);
    told.and(ended).and(removed)
}

/// Where the gateway is asked.
async fn control(path: &Path) -> Result<ControlSocket, Failure> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    ControlSocket::bind(path).await.map_err(Failure::failed)
}

/// Where what is told is written down.
fn places(args: &UpArgs) -> Places {
    Places {
        audit: args.state.join(AUDIT_FILE),
        vault: args.state.join(VAULT_FOLDER),
        kept_file: args.kept_file,
        kept_files: args.kept_files,
        audit_size: args.audit_size,
        eve: args.eve.clone(),
        eve_size: args.eve_size,
        keep: args.keep_audit,
    }
}

/// What a gateway begins with.
#[derive(Clone, Copy)]
struct Begun<'a> {
    policy: &'a Arc<Policy>,
    settings: &'a Settings,
    writer: &'a Writer,
}

/// Ways beside the queues.
struct Ways<'a> {
    kernel: Option<&'a mut Kernel>,
    terminator: Option<Terminator>,
    cache_at: CachePlace,
}

/// Starts the queues, and then puts in what makes the kernel ask: from there on packets come, and
/// there is somebody to take them.
fn begin(
    scanners: &Scanners,
    sight: &rules::Sight,
    (installation, mut ways): (&Installation, Ways<'_>),
    begun: &Begun<'_>,
) -> Result<(Vec<QueueThread>, Vec<Placed>), Failure> {
    let attached = kernel::attach(
        ways.kernel.as_deref_mut(),
        &installation.rules.border,
        (&installation.bpffs, ways.cache_at),
    );
    if let (Some(kernel), Mode::Observe) = (&ways.kernel, begun.settings.mode) {
        // Whoever observes is in nobody's way, whatever the run before has left.
        kernel.shared().cache.clear();
    }
    let set_up = attached.and_then(|placed| {
        let ways = Ways {
            kernel: ways.kernel.as_deref_mut(),
            terminator: ways.terminator.take(),
            cache_at: ways.cache_at,
        };
        let queues = start_queues(scanners, sight, (installation, ways), begun)?;
        installation.set_up(begun.policy, begun.settings.mode)?;
        Ok((queues, placed))
    });
    if set_up.is_err() {
        if let Some(kernel) = ways.kernel {
            kernel.rest();
        }
        // What was put in before the failure goes out again; that it may fail too is no news beside
        // the first reason.
        installation.take_down().ok();
    }
    set_up
}

/// Ends all queues, also behind one that has failed: what the others have to tell is not lost.
/// Answers the first failure.
fn end_all(queues: Vec<QueueThread>) -> Result<(), Failure> {
    for queue in &queues {
        // A loop that has ended already takes no order.
        queue.orders.send(Order::Stop).ok();
    }
    let ended: Vec<_> = queues.into_iter().map(QueueThread::end).collect();
    ended.into_iter().collect()
}

/// `public`: others than this machine may reach it.
async fn listen(address: SocketAddr, public: bool) -> Result<TcpListener, Failure> {
    if !public && !address.ip().to_canonical().is_loopback() {
        return Err(Failure::usage(format_args!(
            "--metrics {address} can be read by everybody who reaches it: take an address of loopback such as 127.0.0.1:{}, or add --metrics-public",
            address.port()
        )));
    }
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| {
        Failure::failed(format_args!(
            "metrics cannot be given at {address}: {error} (--metrics)"
        ))
    })
}

/// Gives metrics for ever, if anybody wants them.
async fn measured(listener: Option<TcpListener>, daemon: &Arc<Daemon>) {
    match listener {
        Some(listener) => metrics::serve(listener, daemon).await,
        None => std::future::pending().await,
    }
}

/// How the gateway works.
fn settings(args: &UpArgs) -> Result<Settings, Failure> {
    Ok(Settings {
        mode: if args.enforce {
            Mode::Enforce
        } else {
            Mode::Observe
        },
        blocked_for: match args.no_connection_cache {
            true => Duration::ZERO,
            false => args.blocked_for,
        },
        zone: zone(args.zone.as_deref())?,
        scan_window: usize::try_from(args.scan_window).unwrap_or(usize::MAX),
        fast_pass: !args.no_fast_pass,
        hold_list: !args.no_hold_list,
    })
}

/// A gateway and a thread for each queue.
fn start_queues(
    scanners: &Scanners,
    sight: &rules::Sight,
    (installation, mut ways): (&Installation, Ways<'_>),
    begun: &Begun<'_>,
) -> Result<Vec<QueueThread>, Failure> {
    let mut queues = Vec::new();
    let mut knowledge = None;
    for (number, numbers) in (0_u64..).zip(installation.numbers()) {
        let mut gateway = Gateway::new(
            sight.classifier.clone(),
            TableBounds {
                // No flow's number is another queue's too, and each is exact in JSON.
                first_serial: number << 44,
                ..TableBounds::default()
            },
            Arc::clone(begun.policy),
            begun.settings.clone(),
        );
        for (endpoint, member) in &sight.members {
            gateway.know_member(*endpoint, member);
        }
        // Which queue gets a flow is chance.
        gateway.share(knowledge.get_or_insert_with(|| gateway.knowledge()));
        let scans = scanners.start()?;
        // The first one is told what the kernel does.
        let shared = (ways.kernel).as_mut().map(|kernel| {
            (
                kernel.shared(),
                kernel.take_told(&installation.rules.border),
            )
        });
        // All terminated connections are its own, too: what one of them announces it knows.
        let terminator = ways.terminator.take();
        queues.push(QueueThread::start(
            numbers,
            installation,
            Work {
                gateway,
                shared,
                terminator,
            },
            scans,
            begun.writer,
        )?);
    }
    Ok(queues)
}

/// Says that the gateway is at work.
fn ready(
    context: &Context,
    args: &UpArgs,
    (settings, without, cache): (&Settings, Option<&[Without]>, &[Placed]),
    policy: &Policy,
) -> Result<(), Failure> {
    let kernel = without.filter(|without| without.len() < Part::ALL.len());
    let ready = Ready {
        pid: std::process::id(),
        mode: settings.mode,
        path: if kernel.is_some() { "kernel" } else { "user" },
        without: without.unwrap_or_default(),
        rules: policy.rules().len(),
        inside: &args.inside,
        outside: &args.outside,
        cache,
    };
    for placed in cache {
        let Placed {
            interface, at, why, ..
        } = placed;
        let why = why.as_deref().unwrap_or_default();
        tracing::info!(%interface, %at, %why, "where the kernel refuses new connections that match a blocked one");
    }
    context.output.either("ringway.gate.ready/1", &ready, || {
        format!(
            "{} <-> {}: {}{}, {} rules; `ringway gate flows` shows what it sees",
            args.inside.join(" "),
            args.outside.join(" "),
            match settings.mode {
                Mode::Observe => "observing",
                Mode::Enforce => "enforcing",
            },
            match kernel {
                None => String::new(),
                Some([]) => ", also in the kernel".to_owned(),
                Some(without) => {
                    let parts = without.iter().map(|without| without.part.to_string());
                    let parts: Vec<String> = parts.collect();
                    format!(", also in the kernel (without {})", parts.join(", "))
                }
            },
            policy.rules().len(),
        )
    })
}

/// What is printed once the gateway is at work.
#[derive(Serialize)]
struct Ready<'a> {
    pid: u32,
    mode: Mode,
    /// Where decisions are carried out.
    path: &'static str,
    /// The parts of the in-kernel path that this machine cannot do.
    without: &'a [Without],
    rules: usize,
    inside: &'a [String],
    outside: &'a [String],
    /// Where the kernel's connection cache is, in front of the packet filter; nowhere without that
    /// part of the in-kernel path.
    cache: &'a [Placed],
}

/// Removes rules and classes, whoever left them.
pub(crate) fn down(args: &DownArgs) -> Result<(), Failure> {
    // One part that cannot be taken out leaves no other behind.
    let mut taken = vec![Rules::take_down().map_err(Failure::failed)];
    for interface in &args.interfaces {
        taken.push(shaper::take_down(interface).map_err(Failure::failed));
        taken.push(unhook(interface, &args.bpffs.bpffs).map_err(Failure::failed));
    }
    taken.push(redirect::take_down().map_err(Failure::failed));
    remove(&args.bpffs.bpffs);
    taken.into_iter().collect()
}

/// What this policy asks and this run cannot do is refused, not passed over.
pub(super) fn can_be_carried_out(policy: &Policy, scans: bool) -> Result<(), Failure> {
    for rule in policy.rules() {
        let refused = |why| {
            Err(Failure::usage(format_args!(
                "rule `{}` in line {} {why}",
                rule.name, rule.line
            )))
        };
        if rule.action == Action::Scan && !scans {
            return refused(
                "scans files, and there is no scanner: name one with --yara or --clamd",
            );
        }
    }
    Ok(())
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
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
        Failure::failed(format_args!("{}: {error}{mend}", folder.display()))
    })
}

/// Confines the gateway to its folders, for good. Call it before there is a second thread.
pub(crate) fn confine(args: &UpArgs) -> Result<(), Failure> {
    make_folder(&args.state)?;
    let mut writable = vec![args.state.clone(), args.bpffs.bpffs.clone()];
    let files = [Some(&args.control), args.eve.as_ref()];
    let folders = files.into_iter().flatten().filter_map(|file| {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or_else(
            || Some(PathBuf::from(".")),
            |folder| Some(folder.to_owned()),
        )
    });
    writable.extend(folders);
    let confined = confinement::confine(&writable).map_err(|error| {
        Failure::failed(format_args!("the gateway could not be confined: {error}"))
    })?;
    if !confined.folders {
        tracing::warn!(
            "this kernel has no Landlock: the gateway could write all that its user may"
        );
    }
    for path in &args.try_write {
        let written = std::fs::write(path, "written from inside\n");
        tracing::warn!(path = %path.display(), written = written.is_ok(), "a write was tried");
    }
    if !confined.calls {
        tracing::warn!("calls that the gateway never needs are not refused on this machine");
    }
    Ok(())
}

/// What a queue's loop has to do with.
struct Work {
    gateway: Gateway,
    /// The kernel decides, too; what it tells goes to one loop.
    shared: Option<(SharedKernel, Option<KernelTold>)>,
    terminator: Option<Terminator>,
}

/// One queue's loop in a thread of its own.
struct QueueThread {
    orders: Sender<Order>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl QueueThread {
    fn start(
        (number, followed): (u16, u16),
        installation: &Installation,
        work: Work,
        scans: ScanDesk,
        writer: &Writer,
    ) -> Result<QueueThread, Failure> {
        let files = FileDesk::start(Digester::new(Some(writer.vault.clone())), writer.tell())
            .map_err(|error| Failure::failed(format_args!("a thread did not start: {error}")))?;
        let told = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => Failure::failed(
                "the gateway needs CAP_NET_ADMIN and CAP_NET_RAW: run it as root or give it both",
            ),
            _ => Failure::failed(error),
        };
        let rules = &installation.rules;
        let lanes = Lanes::open(number, followed, rules.fail_open).map_err(told)?;
        let injector = match rules.border.bridged {
            true => Injector::bridged(rules.border.all()),
            false => Injector::routed(),
        };
        let injector = injector.map_err(told)?;
        let mut live = Live::new(lanes, work.gateway, injector, rules.marks, (scans, files));
        if let Some((shared, told)) = work.shared {
            live.share_kernel(shared, told);
        }
        if let Some(terminator) = work.terminator {
            live.terminate(terminator);
        }
        let (orders, received) = channel();
        let recorder = writer.recorder();
        let thread = std::thread::Builder::new()
            .name(format!("queue-{number}"))
            .spawn(move || {
                let ended = live.run(&received, &mut |told| match told {
                    Told::Over(flow) => recorder.end(*flow),
                    Told::Event(event) => recorder.record(*event),
                });
                // What makes hashes tells the last of them before the writer ends.
                drop(live);
                if let Err(error) = &ended {
                    tracing::error!(number, %error, "a queue's loop has ended: its packets go on or stop as the policy's failure says");
                }
                ended
            })
            .map_err(|error| Failure::failed(format_args!("a thread did not start: {error}")))?;
        Ok(QueueThread { orders, thread })
    }

    /// Waits for its end.
    fn end(self) -> Result<(), Failure> {
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::failed(format_args!("a queue failed: {error}"))),
            Err(_) => Err(Failure::failed("a queue's thread ended by a fault")),
        }
    }
}

/// For how long an answer of a queue's loop is waited for.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use ringway_gateway::linux::live::Order;

    use super::{QueueThread, end_all, listen};

    fn queue(work: impl FnOnce(Receiver<Order>) -> io::Result<()> + Send + 'static) -> QueueThread {
        let (orders, received): (Sender<Order>, _) = channel();
        let thread: JoinHandle<_> = std::thread::spawn(move || work(received));
        QueueThread { orders, thread }
    }

    #[test]
    fn queues_behind_one_that_failed_end_as_well_and_the_first_failure_is_told() {
        let (events, told) = channel();
        let failed = |why: &'static str| queue(move |_orders| Err(io::Error::other(why)));
        let slow = queue(move |orders| {
            assert!(matches!(orders.recv(), Ok(Order::Stop)));
            std::thread::sleep(Duration::from_millis(200));
            events.send("its last event").map_err(io::Error::other)
        });
        let ended = end_all(vec![failed("the first"), slow, failed("another")]);
        // They have ended by now: nothing comes later.
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["its last event"]);
        let message = ended.unwrap_err().message().to_owned();
        assert!(message.contains("the first"), "{message}");
    }

    #[tokio::test]
    async fn metrics_are_for_this_machine_unless_a_flag_says_otherwise() {
        for (address, public, given) in [
            ("127.0.0.1:0", false, true),
            ("[::1]:0", false, true),
            ("[::ffff:127.0.0.1]:0", false, true),
            ("0.0.0.0:0", false, false),
            ("192.0.2.1:9710", false, false),
            ("0.0.0.0:0", true, true),
        ] {
            let listened = listen(address.parse().unwrap(), public).await;
            assert_eq!(listened.is_ok(), given, "{address}");
        }
    }
}
