//! A flood of new connections that match a blocked one: how many the connection cache drops in a
//! second, and what each costs, beside a drop by a program behind NFQUEUE.
//!
//! One thread sends SYNs from a core of its own. These cables hand a packet over on the core that
//! sends it, so what the kernel does with it is that thread's processor time. What the same packets
//! cost that are addressed to no machine is the sending's, and is taken off.

use std::io::{self, IoSlice};
use std::net::SocketAddrV4;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringway_gateway::Packets;
use ringway_gateway::linux::queue::Queue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::addr::SocketAddrArg as _;
use rustix::net::{
    AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, ipproto,
    sendmmsg, socket_with,
};

use super::border::{Border, Running, SERVER, Side};
use super::ladder::{along, words};
use super::policies::CLASSIFY;
use super::{spent, storm};
use crate::cli::{GateBenchArgs, PathChoice};
use crate::figure::{Figure, median};
use crate::limit::on_own_core;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Where the blocked service is.
const PORT: u16 = 6_882;
const CLIENT: &str = "10.66.0.2";
/// A machine that is not there.
const ABSENT: &str = "10.66.0.99";
const NOWHERE: &str = "02:00:00:00:00:63";
/// Ports that calls come from, one after the other.
const FROM: std::ops::Range<u16> = 20_000..24_096;
/// The queue whose packets are all dropped.
const QUEUE: u16 = 7_320;
/// Packets of one call of the system.
const BURST: usize = 64;
/// Calls a second that everybody here can keep up with, so that what one costs can be compared.
const STEADY: u32 = 20_000;
/// Packets and time after which a flood ends in any case; a blocked one is remembered for a minute.
const MOST: u64 = 100_000_000;
const LONGEST: Duration = Duration::from_secs(30);
/// How many calls it may take until the service is blocked.
const CALLS: usize = 20;
/// Of the packets that are sent the in-kernel cache has to drop so many, or something else is
/// measured.
const DROPPED: f64 = 0.98;

/// Who drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    /// The gateway's kernel, because the frames are addressed to another machine: nothing is
    /// cheaper.
    OtherHost,
    /// A program that is handed each packet, and drops it.
    Queue,
    /// The connection cache.
    Cache(PathChoice),
}

impl Middle {
    fn name(self) -> String {
        match self {
            Self::OtherHost => "addressed to nobody".to_owned(),
            Self::Queue => NFQUEUE.to_owned(),
            Self::Cache(path) => along(path, "connection cache").0,
        }
    }
}

const NFQUEUE: &str = "dropped by a program behind NFQUEUE";

/// How fast calls come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    AtOnce,
    Steady,
}

impl Pace {
    pub(super) fn name(self) -> String {
        match self {
            Self::AtOnce => "as fast as one core sends".to_owned(),
            Self::Steady => format!("{STEADY} SYNs/s"),
        }
    }
}

/// What one run showed.
#[derive(Clone, Copy, Debug)]
struct Flooded {
    sent: f64,
    dropped: f64,
    /// Processor time of all, s.
    busy: f64,
    seconds: f64,
}

/// Measures all of them, in turns.
pub(super) fn measure(
    output: Output,
    args: &GateBenchArgs,
    border: &Border,
    (rounds, time): (usize, Duration),
) -> Result<Vec<Figure>, Failure> {
    storm::serve(border, PORT)?;
    let caches = args.path.iter().map(|path| Middle::Cache(*path));
    let middles: Vec<Middle> = [Middle::OtherHost, Middle::Queue]
        .into_iter()
        .chain(caches)
        .collect();
    let mut runs = Vec::new();
    for round in 0..rounds {
        for pace in [Pace::AtOnce, Pace::Steady] {
            let copied = pace == Pace::AtOnce && multiply(border).is_ok();
            if pace == Pace::AtOnce && !copied && round == 0 {
                output.note("flood: nft does not copy packets here, so that sending bounds what can be dropped");
            }
            for &middle in &middles {
                let flooded = flood(border, args, (middle, pace), time.min(LONGEST))?;
                output.note(&format!(
                    "round {} of {rounds}, flood, {}, {}: {:.0} packets/s sent, {:.0}/s dropped, {:.2} µs each with their sending",
                    round + 1,
                    pace.name(),
                    middle.name(),
                    flooded.sent / flooded.seconds,
                    flooded.dropped / flooded.seconds,
                    flooded.busy * 1e6 / flooded.sent
                ));
                runs.push((pace, middle, flooded));
            }
            if copied {
                border.inside(Side::Client, &["nft", "delete", "table", "netdev", "flood"])?;
            }
        }
    }
    let of = |pace: Pace, middle: Middle, value: &dyn Fn(&Flooded) -> f64| -> Vec<f64> {
        let same = runs.iter().filter(|run| run.0 == pace && run.1 == middle);
        same.map(|run| value(&run.2)).collect()
    };
    let mut figures = Vec::new();
    for pace in [Pace::AtOnce, Pace::Steady] {
        // What is sent and not dropped by a program was spent on as well: only at a pace that all
        // keep up with is a drop's cost reported.
        let dropped = |run: &Flooded| run.dropped / run.seconds;
        // On a machine that others use as well.
        let busy = |run: &Flooded| run.dropped / run.busy;
        let each = |run: &Flooded| run.busy * 1e6 / run.sent;
        let sending = median(&of(pace, Middle::OtherHost, &each));
        let alone = |run: &Flooded| each(run) - sending;
        for &middle in &middles {
            let case = format!("reconnection flood, {}, {}", pace.name(), middle.name());
            let figure = |metric, unit, value: &dyn Fn(&Flooded) -> f64| {
                Figure::new("gate", case.clone(), metric, unit, &of(pace, middle, value))
                    .against(NFQUEUE, &of(pace, Middle::Queue, value))
            };
            match pace {
                Pace::AtOnce => {
                    figures.push(figure("dropped", "1/s", &dropped));
                    figures.push(figure("dropped_per_processor_second", "1/s", &busy));
                }
                Pace::Steady if middle == Middle::OtherHost => {
                    figures.push(figure("processor_time_with_sending", "µs", &each));
                }
                Pace::Steady => figures.push(figure("processor_time", "µs", &alone)),
            }
        }
    }
    Ok(figures)
}

/// One flood.
fn flood(
    border: &Border,
    args: &GateBenchArgs,
    (middle, pace): (Middle, Pace),
    time: Duration,
) -> Result<Flooded, Failure> {
    let (running, dropping) = set_up(border, args, middle)?;
    let dropped = || match (&dropping, middle) {
        (Some(dropping), _) => Ok(Some(dropping.count())),
        (None, Middle::Cache(path)) => refused(border, path).map(Some),
        (None, _) => Ok(None),
    };
    let look = || -> Result<(Option<u64>, Duration), Failure> {
        let [gateway, _] = running.processor_time()?;
        let program = dropping.as_ref().map(Dropping::spent).unwrap_or_default();
        let busy = gateway
            .saturating_add(program)
            .saturating_add(spent::softirq_threads()?);
        Ok((dropped()?, busy))
    };
    let (before, came) = (look()?, spent::arrived(border)?);
    let began = Instant::now();
    let sending = border.at(Side::Client, move || send(pace, time));
    let sent = sending.map_err(Failure::failed)?.join();
    let seconds = began.elapsed().as_secs_f64();
    let (after, come) = (look()?, spent::arrived(border)?);
    if let Some(dropping) = dropping {
        dropping.end(border)?;
    }
    if middle == Middle::OtherHost {
        border.inside(Side::Client, &["ip", "route", "del", SERVER, "via", ABSENT])?;
    }
    running.end()?;
    let sender = sent
        .map_err(|_| Failure::failed("the sending thread ended by a fault"))?
        .and_then(|sent| sent)
        .map_err(Failure::failed)?;
    let sent = storm::count(come.saturating_sub(came));
    let dropped = match (before.0, after.0) {
        (Some(before), Some(after)) => storm::count(after.saturating_sub(before)),
        _ => sent,
    };
    if middle == Middle::Cache(PathChoice::Kernel) && dropped < sent * DROPPED {
        return Err(Failure::failed(format_args!(
            "the connection cache dropped only {dropped} of {sent} SYNs"
        )));
    }
    let busy = after.1.saturating_sub(before.1).saturating_add(sender);
    Ok(Flooded {
        sent,
        dropped,
        busy: busy.as_secs_f64(),
        seconds,
    })
}

/// Puts it in the middle, with what it is to drop known to it.
fn set_up(
    border: &Border,
    args: &GateBenchArgs,
    middle: Middle,
) -> Result<(Running, Option<Dropping>), Failure> {
    let mut dropping = None;
    let running = match middle {
        Middle::OtherHost => {
            let route = ["ip", "route", "replace", SERVER, "via", ABSENT];
            let known = ["ip", "neigh", "replace", ABSENT, "lladdr", NOWHERE, "dev"];
            let known = [known.as_slice(), &["eth0", "nud", "permanent"]].concat();
            border.inside(Side::Client, &known)?;
            border.inside(Side::Client, &route)?;
            Running::plain()
        }
        Middle::Queue => {
            let running = border.translate()?;
            dropping = Some(Dropping::start(border)?);
            running
        }
        Middle::Cache(path) => {
            let words = [words(args, None), along(path, "").1].concat();
            let running = border.gateway(CLASSIFY, &words)?;
            block(border)?;
            running
        }
    };
    Ok((running, dropping))
}

/// Calls until the service is blocked.
fn block(border: &Border) -> Result<(), Failure> {
    let calling = border.at(Side::Client, || {
        // A call that is dropped gets no answer; one that is taken gets as far as being blocked for
        // what it says.
        (0..CALLS).any(|_| {
            storm::attempt(PORT).is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        })
    });
    let blocked = calling.map_err(Failure::failed)?.join();
    match blocked {
        Ok(Ok(true)) => Ok(()),
        _ => Err(Failure::failed("the service of the flood was not blocked")),
    }
}

/// Calls that the gateway's cache has dropped so far: in the kernel, or those that came to it.
fn refused(border: &Border, path: PathChoice) -> Result<u64, Failure> {
    let status = border.status()?;
    let place = match path {
        PathChoice::User => "/packets",
        PathChoice::Kernel | PathChoice::Auto => "/in_kernel/refused",
    };
    let reported = status.pointer(place).and_then(serde_json::Value::as_u64);
    reported.ok_or_else(|| Failure::failed(format_args!("the gateway does not tell `{place}`")))
}

/// Sends calls for so long; the thread's processor time.
fn send(pace: Pace, time: Duration) -> io::Result<Duration> {
    on_own_core(0);
    let to: SocketAddrV4 = SocketAddrV4::new(SERVER.parse().map_err(io::Error::other)?, PORT);
    let calls = calls(to)?;
    let address = to.as_any();
    // IPPROTO_RAW implies that the header is included: raw(7).
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::INET, kind, flags, Some(ipproto::RAW))?;
    let (began, before, mut sent) = (Instant::now(), spent::thread(), 0_u64);
    let slices: Vec<[IoSlice<'_>; 1]> = calls.iter().map(|call| [IoSlice::new(call)]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = slices
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let mut messages: Vec<MMsgHdr<'_>> = slices
        .iter()
        .zip(&mut controls)
        .map(|(slice, control)| MMsgHdr::new_with_addr(&address, slice, control))
        .collect();
    while began.elapsed() < time && sent < MOST {
        for burst in messages.chunks_mut(BURST) {
            if pace == Pace::Steady {
                let due = Duration::from_secs(1)
                    .saturating_mul(u32::try_from(sent).unwrap_or(u32::MAX))
                    / STEADY;
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
            let gone = sendmmsg(socket.as_fd(), burst, SendFlags::empty())?;
            sent = sent.saturating_add(u64::try_from(gone).unwrap_or(0));
            if began.elapsed() >= time {
                break;
            }
        }
    }
    Ok(spent::thread().saturating_sub(before))
}

/// Lets the client's kernel copy each SYN on its way, because to send one by a system call costs
/// more than to drop it. The kernel makes two copies of each, of each of those, and of each of
/// those again. After that it copies no more.
fn multiply(border: &Border) -> Result<(), Failure> {
    let copy = format!("ip daddr {SERVER} tcp dport {PORT} dup to \"eth0\"");
    let chain = "type filter hook egress device \"eth0\" priority 0;";
    let text = format!("table netdev flood {{ chain out {{ {chain}\n{copy}\n{copy}\n}}\n}}\n");
    let file = border.file("flood.nft", &text)?;
    border.inside(Side::Client, &["nft", "-f", &file.display().to_string()])
}

/// SYNs from one port after the other.
fn calls(to: SocketAddrV4) -> io::Result<Vec<Vec<u8>>> {
    let client = CLIENT.parse().map_err(io::Error::other)?;
    let calls = FROM.filter_map(|port| {
        let mut packets = Packets::new();
        let from = SocketAddrV4::new(client, port);
        packets.tcp(from.into(), to.into()).open();
        let (_, first) = packets.iter().next()?;
        Some(first.to_vec())
    });
    Ok(calls.collect())
}

/// A program that drops whatever is queued.
#[derive(Debug)]
struct Dropping {
    over: Arc<AtomicBool>,
    /// Packets that it has dropped, and the nanoseconds that it took.
    done: Arc<[AtomicU64; 2]>,
    thread: JoinHandle<io::Result<io::Result<()>>>,
}

impl Dropping {
    fn start(border: &Border) -> Result<Self, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (signal, counted) = (Arc::clone(&over), Arc::clone(&done));
        let thread = border.at(Side::Gateway, move || drop_all(&signal, &counted));
        let number = QUEUE.to_string();
        let rule = ["iptables", "-A", "FORWARD", "-p", "tcp", "--syn"];
        let to = ["-j", "NFQUEUE", "--queue-num", &number];
        border.inside(Side::Gateway, &[rule.as_slice(), &to].concat())?;
        Ok(Self {
            over,
            done,
            thread: thread.map_err(Failure::failed)?,
        })
    }

    fn count(&self) -> u64 {
        let [count, _] = &*self.done;
        count.load(Ordering::Relaxed)
    }

    fn spent(&self) -> Duration {
        let [_, spent] = &*self.done;
        Duration::from_nanos(spent.load(Ordering::Relaxed))
    }

    fn end(self, border: &Border) -> Result<(), Failure> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        border.inside(Side::Gateway, &["iptables", "-F", "FORWARD"])?;
        ended
            .map_err(|_| Failure::failed("the dropping thread ended by a fault"))?
            .and_then(|ended| ended)
            .map_err(Failure::failed)
    }
}

fn drop_all(over: &AtomicBool, done: &[AtomicU64; 2]) -> io::Result<()> {
    on_own_core(1);
    let [count, time] = done;
    let mut queue = Queue::open(QUEUE, false)?;
    let nap = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    let mut ids = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let mut watched = [PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN)];
        poll(&mut watched, Some(&nap))?;
        for _ in 0..BURST {
            if !queue.receive()? {
                break;
            }
            ids.extend(queue.packets().map(|packet| packet.id));
            count.fetch_add(u64::try_from(ids.len()).unwrap_or(0), Ordering::Relaxed);
            for id in ids.drain(..) {
                queue.verdict(id, false, None, None)?;
            }
        }
        queue.flush()?;
        let own = spent::thread().as_nanos();
        time.store(u64::try_from(own).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_syns_from_different_ports() {
        let to: SocketAddrV4 = "198.51.100.9:6882".parse().unwrap();
        let calls = calls(to).unwrap();
        assert_eq!(calls.len(), FROM.len());
        for (call, port) in calls.iter().zip(FROM) {
            assert_eq!(call.len(), 40, "headers alone");
            assert_eq!(call[20..22], port.to_be_bytes());
            assert_eq!(call[33], 0x02, "SYN");
        }
    }
}
