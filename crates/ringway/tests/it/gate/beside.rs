//! Tests of other authors' programs mostly wait: several are done beside each other, each at a
//! border of its own.

use std::error::Error;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ringway_testbed::{Host, TestbedError, need, wait_until};
use serde_json::Value;

use super::border::{Border, DEADLINE, skipped};
use super::both::{Compared, GatePath};

/// How a gateway is started that blocks: whom it has just blocked it refuses without a look for a
/// shorter time than the usual minute.
pub(super) const BRIEFLY: [&str; 3] = ["--enforce", "--blocked-for", "20s"];
/// For how long what is blocked is tried again: past the time of [`BRIEFLY`], after which the
/// gateway looks again.
const RETRIED: Duration = Duration::from_secs(30);
/// By how much half of that time may be longer until a program has tried.
const LATE: Duration = Duration::from_secs(180);
/// Time between two tries of those that do not try by themselves.
const AGAIN: Duration = Duration::from_secs(3);
/// The rate of the class that [`slowed`] makes, in bits a second: what a program asks for ahead
/// lasts while it does not get its turn.
pub(super) const SLOW: f64 = 5e5;

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
pub(super) fn border_with(test: &str, programs: &[&'static str], path: GatePath) -> Option<Border> {
    match need(programs) {
        Ok(()) => Border::on(test, path),
        Err(missing) => skipped(test, missing),
    }
}

/// A test that ends for want of a program, which stderr says.
pub(super) fn without(test: &str, program: &str) -> Compared {
    Ok(skipped(test, program))
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

/// Tries again and again for more than the time of [`BRIEFLY`]. Nothing may come, and there must be
/// refusals in both halves of that time, or no program has tried. A half lasts longer where a
/// busy machine has not let a program try yet.
pub(super) fn stays_blocked(
    refusals: impl Fn() -> u64,
    came: impl Fn() -> Option<String>,
    mut again: impl FnMut() -> Tested,
) -> Tested {
    let mut counts = Vec::new();
    for _ in 0..2 {
        let (end, last) = (RETRIED / 2, RETRIED / 2 + LATE);
        let before = counts.last().copied().unwrap_or(0);
        let begun = Instant::now();
        while begun.elapsed() < end || (begun.elapsed() < last && refusals() <= before) {
            again()?;
            let next = Instant::now() + AGAIN;
            while Instant::now() < next {
                if let Some(what) = came() {
                    return wrong(format!("it came through: {what}"));
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
        counts.push(refusals());
    }
    match counts[..] {
        [first, both] if first > 0 && both > first => Ok(()),
        _ => wrong(format!("refusals by half time and in all: {counts:?}")),
    }
}

/// How many attempts the gateway has written down that it refused and for which this holds; of many
/// like the first it tells every ten seconds how many there were.
pub(super) fn refused(border: &Border, holds: impl Fn(&Value) -> bool) -> u64 {
    let audit = border.audit();
    let blocked = audit
        .iter()
        .filter(|event| event["ringway"]["action"] == "blocked");
    let attempts = |event: &Value| event["ringway"]["attempts"].as_u64().unwrap_or(1);
    blocked.filter(|event| holds(event)).map(attempts).sum()
}

/// How many packets of blocked flows the kernel has dropped without asking: who tries again by UDP
/// does so from the same port, and for the kernel that is still the same flow.
pub(super) fn dropped(border: &Border) -> u64 {
    let rules = ["iptables-save", "--counters", "--table", "mangle"];
    let rules = border.gateway.check(&rules).unwrap_or_default();
    let drops = rules
        .lines()
        .filter(|line| line.contains(" -A RINGWAY ") && line.ends_with("-j DROP"));
    let counts = drops.filter_map(|line| {
        line.strip_prefix('[')?
            .split(':')
            .next()?
            .parse::<u64>()
            .ok()
    });
    counts.sum()
}

/// Does this as often as it is called, but not before this time has passed since the last time.
pub(super) fn every(time: Duration, mut work: impl FnMut() -> Tested) -> impl FnMut() -> Tested {
    let mut last = Instant::now();
    move || {
        if last.elapsed() >= time {
            work()?;
            last = Instant::now();
        }
        Ok(())
    }
}

/// A policy that gives this application, known surely enough, a class of its own.
pub(super) fn slowed(app: &str) -> String {
    format!(
        "[classes.slow]\nrate = \"500 kbit/s\"\n[[rule]]\nname = \"slow\"\napp = \"{app}\"\n\
         action = \"shape\"\nclass = \"slow\"\n"
    )
}

/// Starts the gateway with a policy of classes, so that what comes can be measured.
pub(super) fn up_to_shape(border: &mut Border, policy: &str) {
    border.unjoined();
    border.up(policy, &["--enforce"]);
}

/// Bytes on the wire that the client has received, headers of Ethernet included; right where
/// nothing joins segments.
pub(super) fn on_wire(border: &Border) -> Tested<u64> {
    received(&border.client)
}

/// The same of any host.
fn received(host: &Host) -> Tested<u64> {
    Ok(received_by(host)?.1)
}

/// The same, and when it was so.
fn received_by(host: &Host) -> Tested<(Instant, u64)> {
    // Without a process, which on a busy machine may take longer than a rate may be wrong.
    let (read_at, text) = host.enter(|| {
        let text = fs::read_to_string("/proc/thread-self/net/dev");
        (Instant::now(), text)
    })?;
    let text = text?;
    let others = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    let counts = others
        .filter(|(name, _)| name.trim() != "lo")
        .filter_map(|(_, counts)| counts.split_whitespace().next());
    let counts: Result<Vec<u64>, _> = counts.map(str::parse).collect();
    Ok((read_at, counts?.into_iter().sum()))
}

/// Whether what the client receives comes within 5 % of this rate, in bits on the wire, once it
/// comes.
pub(super) fn comes_at(rate: f64, border: &Border, log: impl Fn() -> String) -> Tested {
    reaches_at(rate, &border.client, log)
}

/// The same of what any host receives. A class holds back: when less comes the sender has made a
/// pause, and it is measured again.
pub(super) fn reaches_at(rate: f64, host: &Host, log: impl Fn() -> String) -> Tested {
    reaches_or(rate, host, log, || Ok(()))
}

/// The same, with something to do before it is measured again.
pub(super) fn reaches_or(
    rate: f64,
    host: &Host,
    log: impl Fn() -> String,
    mut again: impl FnMut() -> Tested,
) -> Tested {
    for pause in 0..PAUSES {
        if pause > 0 {
            again()?;
        }
        if held_to(rate, [16.0, 10.0], host, &log)? {
            return Ok(());
        }
    }
    wrong(format!(
        "less than {rate} bit/s, again and again\n{}",
        log()
    ))
}

/// How many pauses a sender may make.
const PAUSES: usize = 6;

/// Whether this rate is reached for the second of these times in seconds, after what comes at it in
/// the first. Not, if the sender sends less; more is wrong.
pub(super) fn held_to(
    rate: f64,
    [beginning, time]: [f64; 2],
    host: &Host,
    log: impl Fn() -> String,
) -> Tested<bool> {
    let count = || -> Tested<f64> { Ok(f64::from(u32::try_from(received(host)?)?)) };
    // Past the beginning, which the class's burst and the buffers let through faster, and of which
    // not all is in the class where it takes a while to know what is spoken.
    let past = count()? + beginning * rate / 8.0;
    let enough = until_within(2 * DEADLINE, "too little comes", log, || {
        count().is_ok_and(|bytes| bytes > past)
    });
    if enough.is_err() {
        return Ok(false);
    }
    let timed = || -> Tested<(Instant, f64)> {
        let (at, bytes) = received_by(host)?;
        Ok((at, f64::from(u32::try_from(bytes)?)))
    };
    let (begun, before) = timed()?;
    thread::sleep(Duration::from_secs_f64(time));
    let (ended, after) = timed()?;
    let found = 8.0 * (after - before) / (ended - begun).as_secs_f64();
    if found > 1.05 * rate {
        return wrong(format!("{found:.0} instead of {rate} bit/s"));
    }
    Ok(found >= 0.95 * rate)
}

/// Waits until a server takes connections; it is asked beside the gateway.
pub(super) fn until_open(border: &Border, address: SocketAddr) -> Tested {
    let open = || border.server.enter(|| TcpStream::connect(address));
    until(&format!("{address} is closed"), String::new, || {
        matches!(open(), Ok(Ok(_)))
    })
}
