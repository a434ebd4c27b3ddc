//! Tests of other authors' programs mostly wait: several are done beside each other, each at a border of its own.

use std::error::Error;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ringway_testbed::{TestbedError, need, wait_until};

use super::border::{Border, DEADLINE, SERVER, skipped};

/// What these tests give: an error says what went wrong.
pub(super) type Tested<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// An error in words.
pub(super) fn wrong<T>(what: impl Into<String>) -> Tested<T> {
    Err(what.into().into())
}

/// Something to do beside other things, and what it is called.
pub(super) type Job<'a> = (String, Box<dyn FnOnce() -> Tested + Send + 'a>);

/// A job.
pub(super) fn job<'a>(
    name: impl Into<String>,
    work: impl FnOnce() -> Tested + Send + 'a,
) -> Job<'a> {
    (name.into(), Box::new(work))
}

/// Does them all; the error tells each that failed.
pub(super) fn all(jobs: Vec<Job<'_>>) -> Tested {
    let failed: Vec<String> = thread::scope(|scope| {
        let begun: Vec<_> = jobs
            .into_iter()
            .map(|(name, work)| (name, scope.spawn(work)))
            .collect();
        let ended = begun.into_iter().map(|(name, job)| match job.join() {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{name}: {error}")),
            Err(_) => Some(format!("{name}: a panic, see above")),
        });
        ended.flatten().collect()
    });
    if failed.is_empty() {
        Ok(())
    } else {
        wrong(failed.join("\n"))
    }
}

/// A border, if these programs are there. `None`: something is missing here, and stderr says so.
pub(super) fn border_with(test: &str, programs: &[&'static str]) -> Option<Border> {
    match need(programs) {
        Ok(()) => Border::new(test),
        Err(missing) => skipped(test, missing),
    }
}

/// A test that ends for want of a program, which stderr says.
pub(super) fn without(test: &str, program: &str) -> Tested {
    skipped::<()>(test, program);
    Ok(())
}

/// Waits until it holds; the error has what the program logged.
pub(super) fn until(what: &str, log: impl Fn() -> String, holds: impl Fn() -> bool) -> Tested {
    until_within(DEADLINE, what, log, holds)
}

/// The same within this time.
pub(super) fn until_within(
    time: Duration,
    what: &str,
    log: impl Fn() -> String,
    holds: impl Fn() -> bool,
) -> Tested {
    let looked = wait_until(time, || match holds() {
        true => Ok(()),
        false => Err(TestbedError(what.to_owned())),
    });
    looked.map_err(|error| format!("{error}\n{}", log()).into())
}

/// Fails if it ever holds while this time passes.
pub(super) fn never(
    time: Duration,
    what: &str,
    log: impl Fn() -> String,
    holds: impl Fn() -> bool,
) -> Tested {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if holds() {
            return wrong(format!("{what}\n{}", log()));
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Bytes that the client has received from the server over TCP connections that are still open.
pub(super) fn received(border: &Border) -> Tested<u64> {
    let text = border
        .client
        .check(&["ss", "-tinH", "state", "established", "dst", SERVER])?;
    let counts = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("bytes_received:"));
    let counts: Result<Vec<u64>, _> = counts.map(str::parse).collect();
    Ok(counts?.into_iter().sum())
}

/// Whether what the client receives comes within 5 % of this rate, in bits on the wire, once it comes.
pub(super) fn comes_at(rate: f64, border: &Border, log: impl Fn() -> String) -> Tested {
    // Past the beginning, which the class's burst and the buffers let through faster.
    let beginning = 3 << 20;
    until("nothing comes", log, || {
        received(border).is_ok_and(|bytes| bytes > beginning)
    })?;
    let (begun, before) = (Instant::now(), received(border)?);
    thread::sleep(Duration::from_secs(6));
    let (bytes, time) = (received(border)? - before, begun.elapsed());
    // Of the 1 514 bytes of a whole packet on Ethernet 1 448 are the application's.
    let bits = 8.0 * f64::from(u32::try_from(bytes)?) * 1_514.0 / 1_448.0;
    let found = bits / time.as_secs_f64();
    if (0.95..=1.05).contains(&(found / rate)) {
        Ok(())
    } else {
        wrong(format!("{found:.0} instead of {rate} bit/s"))
    }
}

/// Waits until a server takes connections; it is asked beside the gateway.
pub(super) fn until_open(border: &Border, address: SocketAddr) -> Tested {
    let open = || border.server.enter(|| TcpStream::connect(address));
    until(&format!("{address} is closed"), String::new, || {
        matches!(open(), Ok(Ok(_)))
    })
}
