//! Processor time of those who carry packets, and how many packets there were.

use std::time::Duration;

use super::border::{Border, Side};
use ringway_terminal::Failure;

/// Processor time of this thread.
pub(super) fn thread() -> Duration {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

/// Processor time of this process, all threads.
pub(super) fn here() -> Duration {
    clock(rustix::time::ClockId::ProcessCPUTime)
}

fn clock(clock: rustix::time::ClockId) -> Duration {
    let times = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(times.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(times.tv_nsec).unwrap_or(0))
}

/// Processor time of the kernel's own threads for packets: what it did outside of the threads that
/// brought them.
pub(super) fn softirq_threads() -> Result<Duration, Failure> {
    let mut spent = 0_u64;
    for process in std::fs::read_dir("/proc").map_err(Failure::failed)? {
        let path = process.map_err(Failure::failed)?.path();
        // One may have ended meanwhile, and some of what is there is no process.
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        if read("comm").starts_with("ksoftirqd/") {
            let text = read("schedstat");
            let first = text.split_whitespace().next();
            let number = first.and_then(|number| number.parse::<u64>().ok());
            spent = spent.saturating_add(number.unwrap_or(0));
        }
    }
    Ok(Duration::from_nanos(spent))
}

/// Time in software interrupts of the whole machine, in any process's name; sampled by the clock's
/// ticks.
pub(super) fn softirqs() -> Result<Duration, Failure> {
    let text = std::fs::read_to_string("/proc/stat").map_err(Failure::failed)?;
    // The first line is that of all processors: its name, and the seventh number, in hundredths of
    // a second.
    let line = text.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().nth(7);
    let ticks = ticks
        .and_then(|ticks| ticks.parse::<u64>().ok())
        .unwrap_or(0);
    Ok(Duration::from_millis(ticks.saturating_mul(10)))
}

/// What has come to the gateway from the client and gone to it: bytes, with their headers, and
/// packets.
pub(super) fn crossed(border: &Border) -> Result<[u64; 2], Failure> {
    let [[bytes_in, packets_in], [bytes_out, packets_out]] = at_the_client(border)?;
    Ok([
        bytes_in.saturating_add(bytes_out),
        packets_in.saturating_add(packets_out),
    ])
}

/// Packets that have come to the gateway from the client.
pub(super) fn arrived(border: &Border) -> Result<u64, Failure> {
    let [[_, came], _] = at_the_client(border)?;
    Ok(came)
}

fn at_the_client(border: &Border) -> Result<[[u64; 2]; 2], Failure> {
    let read = border.at(Side::Gateway, || {
        std::fs::read_to_string("/proc/thread-self/net/dev")
    });
    let text = read
        .map_err(Failure::failed)?
        .join()
        .map_err(|_| Failure::failed("a reading thread ended by a fault"))?
        .and_then(|text| text)
        .map_err(Failure::failed)?;
    counts(&text, "lan0").ok_or_else(|| Failure::failed("lan0 has no count of packets"))
}

/// Bytes and packets that an interface has received, and sent.
fn counts(text: &str, interface: &str) -> Option<[[u64; 2]; 2]> {
    let line = text.lines().find_map(|line| {
        let (name, line) = line.trim().split_once(':')?;
        (name == interface).then_some(line)
    })?;
    // Eight numbers of each way; bytes, packets, and what was not so good.
    let number = |at| line.split_whitespace().nth(at)?.parse().ok();
    Some([[number(0)?, number(1)?], [number(8)?, number(9)?]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_an_interface_are_counted() {
        let text = "Inter-|   Receive\n face |bytes\n  wlan0: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n   lan0: 5 6 0 0 0 0 0 0 7 8 0 0 0 0 0 0\n";
        assert_eq!(counts(text, "lan0"), Some([[5, 6], [7, 8]]));
        assert_eq!(counts(text, "wan0"), None);
    }
}
