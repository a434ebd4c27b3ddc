//! One network line between two namespaces: a rate, a delay and a queue each way.
//!
//! It stands in for the program `rattan` in the benchmark, with the same command line and the same
//! line, at a fraction of the processor time. The line lies between the namespace in which it
//! starts (the base) and a new one, in which it runs a command; `RATTAN_BASE` tells the command the
//! base's address. Uplink is the way from the command to the base. All ends with the command.
//!
//! Needs root, `ip` and `ethtool`.

mod alarm;
mod arguments;
mod carry;
mod codel;
mod device;
mod lay;
mod queue;
mod way;

use std::env;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use arguments::Arguments;
use carry::{Carrier, End};
use way::Way;

/// Tells the command where the base is.
const BASE_VARIABLE: &str = "RATTAN_BASE";

/// What shells add to the number of the signal that ended a command (POSIX.1-2024, sh, 2.8.2, asks
/// for more than 128).
const SIGNALLED: i32 = 128;

/// Why this program ends badly.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The arguments were wrong. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Something did not work. Exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    /// An error and what met it.
    fn of(what: &str, error: &io::Error) -> Failure {
        Failure::Failed(format!("{what}: {error}"))
    }
}

fn main() -> ExitCode {
    let (code, failure) = match Arguments::parse(env::args_os().skip(1)).and_then(run) {
        Ok(status) => return exit_code(status),
        Err(failure @ Failure::Usage(_)) => (2, failure),
        Err(failure @ Failure::Failed(_)) => (1, failure),
    };
    // Who has closed stderr learns it from the code.
    writeln!(io::stderr(), "dtl-line: {failure}").ok();
    ExitCode::from(code)
}

/// Lays the line and runs the command to its end. The main thread stays in the base: that is where
/// others look for it.
fn run(arguments: Arguments) -> Result<ExitStatus, Failure> {
    let Arguments {
        up,
        down,
        program,
        given,
    } = arguments;
    let laid = lay::lay()?;
    let begin = Instant::now();
    let carrier = Carrier::new([
        End {
            device: laid.inner,
            way: Way::new(&up, begin),
        },
        End {
            device: laid.base,
            way: Way::new(&down, begin),
        },
    ]);
    let mut carrier = carrier.map_err(|error| Failure::of("timers", &error))?;
    let mut command = Command::new(&program);
    command
        .args(given)
        .env(BASE_VARIABLE, lay::BASE.to_string());
    let said = program.to_string_lossy();
    let started = laid
        .behind
        .enter(|| command.spawn().map_err(|error| Failure::of(&said, &error)));
    let mut child = started?;
    let ended = carry(&mut carrier, &child);
    if ended.is_err() {
        // It has ended, or has no line any more.
        child.kill().ok();
    }
    let status = child.wait().map_err(|error| Failure::of(&said, &error))?;
    ended.map_err(|error| Failure::of("carrying frames", &error))?;
    Ok(status)
}

/// Carries until the command ends.
fn carry(carrier: &mut Carrier, child: &Child) -> io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let end = pidfd_open(pid.ok_or(io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
    carrier.carry(end.as_fd())
}

/// The command's own, or what a shell makes of its signal.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
