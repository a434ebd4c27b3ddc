//! From the arguments to an exit code.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;
use ringway_gateway::linux::kernel::Kernel;
use ringway_gateway::linux::priority::{raise_priority, reset_priority};
use ringway_gateway::linux::privileges;
use ringway_terminal::limits::JOINED_LOOK;
use ringway_terminal::{Failure, Output, explain, show_log_counts, start_log, with_help};
use tokio::runtime::{Builder, Runtime};

use crate::cli::{Cli, Command, GateCommand, MEANT, RingCommand, with_file};
use crate::context::Context;
use crate::{
    daemon, demo, doctor, forward, gate, inbox, leave, limits, members, msg, owner, pages, reach,
    records, rotate, send, service, status, streams, transfers,
};

/// Where `ringway bench` went.
const BENCHMARKS_MOVED: &str = "benchmarks are a program of their own, `ringway-bench`, with the \
    same arguments; in the source `make bench` builds it, as target/release/ringway-bench";

/// A user of such a build has to know it, whatever the options.
fn warn_of_this_build() {
    let line = "ringway: INSECURE BUILD: links are neither encrypted nor authenticated. For benchmarks only; it cannot join a secure ring.\n";
    // There is nowhere else to say it.
    std::io::stderr().write_all(line.as_bytes()).ok();
}

/// Runs the command that the arguments name.
pub(crate) fn main() -> ExitCode {
    if ringway_node::INSECURE {
        warn_of_this_build();
    }
    // Where a shell asks for what could stand at the cursor, it ends here.
    CompleteEnv::with_factory(Cli::command).complete();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let arguments = match with_file(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let json = std::env::args_os().any(|argument| argument == "--json");
            return Failure::usage(error).report(json);
        }
    };
    let arguments = with_help(&Cli::command(), arguments);
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return explain(&Cli::command(), &error, &arguments, MEANT),
    };
    let json = cli.global.json;
    match run(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let daemon = is_daemon(&cli.command);
    // A daemon's log tells what it does, and a command's only what went wrong.
    let least = u8::from(daemon && !cli.global.quiet);
    start_log(cli.global.verbose.max(least))?;
    let context = Context {
        output: Output::new(cli.global.json, cli.global.quiet),
        global: cli.global,
    };
    let mut kernel = None;
    if let Command::Gate(GateCommand::Up(args)) = &cli.command {
        gate::move_state(&args.state);
        kernel = gate::in_kernel(args)?;
        if let Err(error) = raise_priority() {
            tracing::info!(%error, "packets wait for their answers behind other programs: the gateway may have no nice value below 0 (LimitNICE=-10 in its unit)");
        }
        // Threads begin with the runtime, and each has capabilities of its own.
        privileges::give_up(kernel.is_some()).map_err(|error| {
            Failure::failed(format_args!(
                "what the gateway need not be able to do could not be given up: {error}"
            ))
        })?;
        gate::confine(args)?;
    }
    let runtime = runtime(&cli.command)?;
    if daemon {
        runtime.spawn(show_counts());
    }
    let result = runtime.block_on(dispatch(&context, cli.command, kernel));
    runtime.shutdown_timeout(limits::RUNTIME_END);
    show_log_counts(true);
    result
}

/// Tells how often alike lines came, also where no other line comes.
async fn show_counts() {
    loop {
        tokio::time::sleep(JOINED_LOOK).await;
        show_log_counts(false);
    }
}

/// Whether it runs until it is told to end.
fn is_daemon(command: &Command) -> bool {
    matches!(
        command,
        Command::Node(_) | Command::Ring(RingCommand::Serve(_)) | Command::Gate(GateCommand::Up(_))
    )
}

/// Daemons get a thread per core, commands that end at once do with one.
fn runtime(command: &Command) -> Result<Runtime, Failure> {
    let mut builder = if is_daemon(command) {
        Builder::new_multi_thread()
    } else {
        Builder::new_current_thread()
    };
    if matches!(command, Command::Gate(GateCommand::Up(_))) {
        // Those that answer for packets are none of the runtime's.
        builder.on_thread_start(reset_priority);
    }
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| {
        Failure::failed(format_args!(
            "the asynchronous runtime did not start: {error}"
        ))
    })
}

async fn dispatch(
    context: &Context,
    command: Command,
    kernel: Option<Kernel>,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(args) => return demo::run(context, &args).await,
        // There is no second thread yet, which would keep it from its namespaces.
        Command::DemoBorder => demo::run_room(context)?,
        Command::Ring(command) => owner::run(context, command).await?,
        Command::Join(args) => daemon::join(context, args).await?,
        Command::Node(args) => daemon::node(context, &args).await?,
        Command::Rotate(args) => rotate::run(context, &args)?,
        Command::Leave(args) => leave::run(context, &args).await?,
        Command::Status => status::status(context).await?,
        Command::Members => members::list(context).await?,
        Command::Send(args) => send::send(context, &args).await?,
        Command::Inbox(args) => inbox::run(context, args).await?,
        Command::Transfers(args) => transfers::list(context, &args).await?,
        Command::Services(args) => streams::services(context, args).await?,
        Command::Forward(args) => forward::run(context, args).await?,
        Command::Connect(args) => streams::connect(context, &args).await?,
        Command::Streams => streams::list(context).await?,
        Command::Priority(args) => transfers::priority(context, args).await?,
        Command::Cancel(args) => transfers::cancel(context, args).await?,
        Command::Ping(args) => reach::ping(context, args).await?,
        Command::Path(args) => reach::path(context, args).await?,
        Command::Route(args) => reach::route(context, args).await?,
        Command::Msg(args) => msg::run(context, args).await?,
        Command::Put(args) => records::put(context, args).await?,
        Command::Get(args) => records::get(context, args).await?,
        Command::Gate(command) => gateway(context, command, kernel).await?,
        Command::Service(command) => service::run(context, &command)?,
        Command::Doctor(args) => doctor::doctor(context, &args).await?,
        Command::Bench(_) => return Err(Failure::usage(BENCHMARKS_MOVED)),
        Command::Completions(args) => pages::completions(context, &args)?,
        Command::Man(args) => pages::man(context, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn gateway(
    context: &Context,
    command: GateCommand,
    kernel: Option<Kernel>,
) -> Result<(), Failure> {
    match command {
        GateCommand::Classify(args) => gate::classify(context, &args),
        GateCommand::Preset(args) => gate::preset(context, &args),
        GateCommand::Check(args) => gate::check(context, &args),
        GateCommand::Replay(args) => gate::replay(context, &args),
        GateCommand::Up(args) => gate::up(context, &args, kernel).await,
        GateCommand::Down(args) => gate::down(context, &args),
        GateCommand::Doctor(args) => gate::doctor(context, &args),
        GateCommand::Status(args) => gate::status(context, &args).await,
        GateCommand::Flows(args) => gate::flows(context, &args).await,
        GateCommand::Top(args) => gate::top(context, &args).await,
        GateCommand::Quotas(args) => gate::quotas(context, &args).await,
        GateCommand::Why(args) => gate::why(context, &args).await,
        GateCommand::Apply(args) => gate::apply(context, &args).await,
        GateCommand::Confirm(args) => gate::confirm(context, &args).await,
        GateCommand::Audit(args) if args.flows => gate::flow_history(context, &args),
        GateCommand::Audit(args) => gate::audit(context, &args),
        GateCommand::Diff(args) => gate::diff(context, &args),
        GateCommand::Swarms(args) => gate::swarms(context, &args).await,
    }
}
