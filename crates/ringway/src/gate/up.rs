//! `ringway gate up`: the gateway at work, and `gate down`, which leaves nothing of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringway_gateway::limits::RULES_LOOK;
use ringway_gateway::linux::confinement;
use ringway_gateway::linux::conntrack::{Conntrack, switch};
use ringway_gateway::linux::default_route::default_interfaces;
use ringway_gateway::linux::kernel::Kernel;
use ringway_gateway::linux::kernel::attach::{AttachPoint, AttachedAt};
use ringway_gateway::linux::kernel::parts::{MissingPart, Part, Wanted};
use ringway_gateway::service::{
    BorderConfig, Controller, EveConfig, EveTarget, GatewayBuilder, NamedPolicy, RunningGateway,
    ScannerConfig, ServiceError, StateConfig, load_kernel, make_folder, take_down,
};
use ringway_gateway::verdict::{Mode, Settings};
use ringway_node::control::ControlSocket;
use ringway_transport::CannotListen;
use serde::Serialize;
use tokio::net::TcpListener;

use super::preset::PolicySource;
use super::replay::zone;
use super::{control, metrics, reload, rules};
use crate::cli::{CachePlace, DownArgs, PathChoice, UpArgs};
use crate::context::Context;
use crate::signals::DaemonSignals;
use crate::supervisor::Supervisor;
use ringway_terminal::Failure;

/// Puts the gateway to work until a signal ends it. `kernel`: the in-kernel path, from
/// [`in_kernel`].
pub(crate) async fn up(
    context: &Context,
    args: &UpArgs,
    kernel: Option<Kernel>,
) -> Result<(), Failure> {
    let args = &complete(args)?;
    let source = PolicySource::of(args)?;
    let (shutdown, reloads) = DaemonSignals::catch()?.split(args.exit_with_stdin);
    let supervisor = Supervisor::of_environment();
    let claimed = builder(context, args, &source)?
        .border(border(args))
        .and_then(|bordered| bordered.claim(state(args)))
        .map_err(failure)?;
    // Before packets come: another daemon, or a taken port, is a reason not to begin.
    let socket = control(&args.control).await?;
    let measured_at = match args.metrics {
        Some(address) => Some(listen(address, args.metrics_public).await?),
        None => None,
    };
    let running = claimed.kernel(kernel, cache_at(args)).start();
    let mut gateway = running.map_err(failure)?;
    let announced = ready(context, args, &gateway);
    if announced.is_ok() {
        let rules_look = args.rules_look.unwrap_or(RULES_LOOK);
        gateway.keep_house(rules_look).map_err(failure)?;
        tokio::select! {
            () = control::serve(&socket, gateway.controller()) => {}
            () = measured(measured_at, gateway.controller()) => {}
            () = reload::serve(reloads, &gateway, &source, &supervisor) => {}
            () = supervisor.watch(|| reload::look(gateway.controller())) => {}
            () = shutdown => {}
        }
    }
    supervisor.stopping();
    drop(socket);
    // Of a gateway that was not announced nothing stays.
    let stays = args.leave && announced.is_ok();
    announced.and(gateway.end(stays).map_err(failure))
}

/// The options with what follows from them and from this machine: where the world is, and whether
/// interfaces may come later.
fn complete(args: &UpArgs) -> Result<UpArgs, Failure> {
    let mut args = args.clone();
    args.late_interfaces |= args
        .preset
        .is_some_and(|choice| choice.preset().awaits_interfaces());
    if args.outside.is_empty() {
        if args.bridged {
            return Err(Failure::usage(
                "a bridge has no default route by which the world is found: name its port towards the world (--outside)",
            ));
        }
        args.outside = default_interfaces();
        // By a VPN's own default route the machine itself may go, not what comes from inside.
        args.outside.retain(|name| !args.inside.contains(name));
        if args.outside.is_empty() {
            // Not usage: when the machine has started the route may be there.
            return Err(Failure::failed(
                "no default route of this machine says where the world is: name the interface towards it (--outside)",
            ));
        }
    }
    Ok(args)
}

/// The in-kernel path, loaded and not yet at work, if it is wanted and can be had.
pub(crate) fn in_kernel(args: &UpArgs) -> Result<Option<Kernel>, Failure> {
    let wanted = match args.path {
        PathChoice::User => return Ok(None),
        PathChoice::Kernel => Wanted::All,
        PathChoice::Auto => Wanted::AsFarAsPossible,
    };
    load_kernel(&args.bpffs.bpffs, wanted).map_err(failure)
}

/// What is judged, by which policy and with which scanners.
fn builder(
    context: &Context,
    args: &UpArgs,
    source: &PolicySource,
) -> Result<GatewayBuilder, Failure> {
    let signatures = rules::signatures(&args.look.signatures)?;
    let policy = rules::policy_of(source, &signatures, context.output.json())?;
    let classifier = rules::classifier(signatures, &args.look)?;
    let policy = NamedPolicy {
        name: source.name().display().to_string(),
        policy: Arc::new(policy),
    };
    let scanners = ScannerConfig {
        yara: args.yara.clone(),
        hashes: args.hashes.clone(),
        clamd: args.clamd.clone(),
        threads: args.scanners,
    };
    GatewayBuilder::new(classifier, policy, settings(args)?)
        .scanners(&scanners)
        .map_err(failure)
}

fn border(args: &UpArgs) -> BorderConfig {
    BorderConfig {
        inside: args.inside.clone(),
        outside: args.outside.clone(),
        bridged: args.bridged,
        queue: args.queue,
        queues: args.queues,
        mask: args.mask,
        in_kernel: args.path != PathChoice::User,
        bpffs: args.bpffs.bpffs.clone(),
        late: args.late_interfaces,
    }
}

fn state(args: &UpArgs) -> StateConfig {
    StateConfig {
        folder: args.state.clone(),
        keep: args.keep_audit,
        audit_size: args.audit_size,
        eve: EveConfig {
            targets: args.eve.clone(),
            kinds: args.eve_types,
            file_size: args.eve_size,
            sensor: args.sensor.clone(),
        },
        kept_file: args.kept_file,
        kept_files: args.kept_files,
        flows_every: args.flows_every,
        keep_flows: args.keep_flows,
        flows_size: args.flows_size,
    }
}

fn cache_at(args: &UpArgs) -> AttachPoint {
    match args.cache_at {
        CachePlace::Auto => AttachPoint::Auto,
        CachePlace::Tc => AttachPoint::Tc,
        CachePlace::Xdp => AttachPoint::Xdp,
    }
}

/// A service's error, as the program reports it.
pub(super) fn failure(error: ServiceError) -> Failure {
    Failure::blame(error.is_usage(), error)
}

/// Where the gateway is asked.
async fn control(path: &Path) -> Result<ControlSocket, Failure> {
    if let Some(folder) = path.parent() {
        make_folder(folder).map_err(failure)?;
    }
    ControlSocket::bind(path).await.map_err(Failure::failed)
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
            "metrics cannot be given at {address} (--metrics): {}",
            CannotListen {
                address,
                source: &error
            }
        ))
    })
}

/// Gives metrics for ever, if anybody wants them.
async fn measured(listener: Option<TcpListener>, controller: &Arc<Controller>) {
    match listener {
        Some(listener) => metrics::serve(listener, controller).await,
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
        blocked_for: if args.no_connection_cache {
            Duration::ZERO
        } else {
            args.blocked_for
        },
        zone: zone(args.zone.as_deref())?,
        scan_window: usize::try_from(args.scan_window).unwrap_or(usize::MAX),
        fast_pass: !args.no_fast_pass,
        hold_list: !args.no_hold_list,
        names: !args.eve.is_empty() && args.eve_types.has_protocols(),
    })
}

/// Says that the gateway is at work.
fn ready(context: &Context, args: &UpArgs, gateway: &RunningGateway) -> Result<(), Failure> {
    let (without, cache) = (gateway.without(), gateway.cache());
    // With every part missing it is the path in user space, as without a kernel.
    let kernel = without
        .as_deref()
        .filter(|without| without.len() < Part::ALL.len());
    let (mode, rules) = gateway.controller().in_force();
    let missing = gateway.missing_interfaces();
    let ready = Ready {
        pid: std::process::id(),
        mode,
        path: if kernel.is_some() { "kernel" } else { "user" },
        without: without.as_deref().unwrap_or_default(),
        rules,
        inside: &args.inside,
        outside: &args.outside,
        missing: &missing,
        cache,
    };
    for interface in &missing {
        tracing::warn!(%interface, "there is no such interface yet: what crosses it is looked at once it is there");
    }
    for placed in cache {
        let AttachedAt {
            interface, at, why, ..
        } = placed;
        let why = why.as_deref().unwrap_or_default();
        tracing::info!(%interface, %at, %why, "where the kernel refuses new connections that match a blocked one");
    }
    context.output.either("ringway.gate.ready/1", &ready, || {
        format!(
            "{} <-> {}: {}{}, {} rules{}; `ringway gate flows` shows what it sees",
            args.inside.join(" "),
            args.outside.join(" "),
            match mode {
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
            rules,
            match missing.as_slice() {
                [] => String::new(),
                missing => format!(" (not there yet: {})", missing.join(", ")),
            },
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
    without: &'a [MissingPart],
    rules: usize,
    inside: &'a [String],
    outside: &'a [String],
    /// Interfaces that are not there yet.
    missing: &'a [String],
    /// Where the kernel's connection cache is, in front of the packet filter; nowhere without that
    /// part of the in-kernel path.
    cache: &'a [AttachedAt],
}

/// Removes rules and classes, whichever run has left them.
pub(crate) fn down(context: &Context, args: &DownArgs) -> Result<(), Failure> {
    take_down(&args.interfaces, &args.bpffs.bpffs, &args.state).map_err(failure)?;
    let shaped = match &*args.interfaces {
        [] => "classes stay where no interface is named".to_owned(),
        names => format!("no class is left on {}", names.join(", ")),
    };
    context.output.note(&format!(
        "No rule of a gateway is left in this network namespace; {shaped}."
    ));
    Ok(())
}

/// Confines the gateway to its folders, for good. Call it before there is a second thread.
pub(crate) fn confine(args: &UpArgs) -> Result<(), Failure> {
    make_folder(&args.state).map_err(failure)?;
    let mut writable = vec![args.state.clone(), args.bpffs.bpffs.clone()];
    // Their folders, because these files are replaced: events rotate, and the socket goes at the
    // end.
    let files = args.eve.iter().filter_map(EveTarget::file);
    let files = files.chain([args.control.as_path()]);
    let folders = files.filter_map(|file| {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or_else(
            || Some(PathBuf::from(".")),
            |folder| Some(folder.to_owned()),
        )
    });
    writable.extend(folders);
    // Loads connection tracking, whose settings there are only then. What is missing is told when
    // the accounts begin.
    drop(Conntrack::open());
    writable.extend(switch::files());
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

#[cfg(test)]
mod tests {
    use super::listen;

    #[tokio::test]
    async fn metrics_listen_on_loopback_without_a_flag() {
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
