//! The loop that carries frames.
//!
//! What a packet costs is mostly timers and wakes. So this loop does not wake when a frame comes.
//! The kernel stamps frames, and none is due before the line's delay has passed: while anything is
//! under way it wakes for deliveries only, and looks for new frames every few milliseconds, mostly
//! when it is awake anyway.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::alarm::{AHEAD, Alarm};
use crate::device::Device;
use crate::queue::Packet;
use crate::way::Way;

/// Longest time between two looks: bounds what a device has to hold.
const LOOK: Duration = Duration::from_millis(5);

/// A line whose delay is shorter looks at every wake, and wakes for each frame: it has no time to
/// be late.
const SHORT: Duration = Duration::from_millis(1);

/// Bytes of the longest frame: an Ethernet header and 1 500 bytes, and some more.
const FRAME: usize = 2048;

/// Buffers that are kept for reuse.
const SPARE: usize = 1024;

/// Both clocks are taken to be read at one moment if that took no longer than this; it is tried so
/// often.
const AT_ONCE: Duration = Duration::from_micros(5);
const TRIES: u32 = 8;

/// An end of the line, and the way from there to the other end.
#[derive(Debug)]
pub(crate) struct End {
    /// Where frames come.
    pub(crate) device: Device,
    /// Which way they go.
    pub(crate) way: Way,
}

/// The two ends.
#[derive(Debug)]
pub(crate) struct Carrier {
    ends: [End; 2],
    alarm: Alarm,
    spare: Vec<Vec<u8>>,
    looked: Instant,
    /// Time between two looks.
    pause: Duration,
    short: bool,
}

impl Carrier {
    pub(crate) fn new(ends: [End; 2]) -> io::Result<Carrier> {
        let delays = ends.each_ref().map(|end| end.way.delay());
        let shortest = delays[0].min(delays[1]);
        Ok(Carrier {
            ends,
            alarm: Alarm::new()?,
            spare: Vec::new(),
            looked: Instant::now(),
            pause: (shortest / 2).clamp(SHORT / 2, LOOK),
            short: shortest < SHORT,
        })
    }

    /// Carries frames until this descriptor can be read: that of the command's end.
    pub(crate) fn carry(&mut self, end: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            let frames = self.wait(end)?;
            // A look that is due soon is made now.
            if frames || self.short || self.looked.elapsed() >= self.pause / 2 {
                self.look()?;
                if ended(end)? {
                    return Ok(());
                }
            }
            self.deliver();
        }
    }

    /// Waits for the next thing to do; says whether that is a look.
    fn wait(&mut self, end: BorrowedFd<'_>) -> io::Result<bool> {
        let idle = self.ends.iter().all(|end| end.way.is_empty());
        if !idle && !self.short {
            let times = self.next_times();
            self.alarm.set(times)?;
            if let [Some(first), _] = times {
                self.alarm.wait(first)?;
            }
            return Ok(false);
        }
        let timeout = (!idle).then(|| self.next_times()).and_then(|[first, _]| {
            let pause = first?.saturating_duration_since(Instant::now());
            // At most the time between two looks.
            Some(Timespec {
                tv_sec: 0,
                tv_nsec: pause.subsec_nanos().into(),
            })
        });
        let [first, second] = self
            .ends
            .each_ref()
            .map(|end| PollFd::new(&end.device, PollFlags::IN));
        let mut files = [PollFd::from_borrowed_fd(end, PollFlags::IN), first, second];
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The next times at which there is something to do.
    fn next_times(&self) -> [Option<Instant>; AHEAD] {
        let [mut first, mut second] = self.ends.each_ref().map(|end| end.way.dues().peekable());
        let mut look = Some(self.looked + self.pause);
        [(); AHEAD].map(|()| {
            let next = [first.peek().copied(), second.peek().copied(), look];
            let time = next.into_iter().flatten().min()?;
            if next[0] == Some(time) {
                first.next();
            } else if next[1] == Some(time) {
                second.next();
            } else {
                look = None;
            }
            Some(time)
        })
    }

    /// Takes all frames that have come.
    fn look(&mut self) -> io::Result<()> {
        let (now, clock) = both_clocks();
        for end in &mut self.ends {
            loop {
                let mut frame = self.spare.pop().unwrap_or_default();
                frame.resize(FRAME, 0);
                let Some((length, came)) = end.device.receive(&mut frame)? else {
                    self.spare.push(frame);
                    break;
                };
                frame.truncate(length);
                end.way.arrive(Packet {
                    frame,
                    arrived: on_clock(now, clock, came),
                });
            }
            end.way.advance(now);
        }
        self.looked = now;
        Ok(())
    }

    /// Sends all frames that are due.
    fn deliver(&mut self) {
        let [first, second] = &mut self.ends;
        loop {
            let now = Instant::now();
            let packets = [first.way.due(now), second.way.due(now)];
            let devices = [&second.device, &first.device];
            if packets.iter().all(Option::is_none) {
                return;
            }
            for (packet, device) in packets.into_iter().zip(devices) {
                let Some(packet) = packet else { continue };
                device.send(&packet.frame);
                if self.spare.len() < SPARE {
                    self.spare.push(packet.frame);
                }
            }
        }
    }
}

/// Whether this descriptor can be read.
fn ended(end: BorrowedFd<'_>) -> io::Result<bool> {
    let mut files = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    Ok(poll(&mut files, Some(&Timespec::default()))? > 0)
}

/// The clock that is never set and the system's, read at one moment, or the first after the other.
/// The other way about, the frames of a look would leave too early by as long as this thread had to
/// wait for a processor between the two; so they leave late, as they may on any line.
fn both_clocks() -> (Instant, SystemTime) {
    let read = || (Instant::now(), SystemTime::now(), Instant::now());
    let mut clocks = read();
    for _ in 1..TRIES {
        let (before, _, after) = clocks;
        if after.saturating_duration_since(before) <= AT_ONCE {
            break;
        }
        clocks = read();
    }
    (clocks.2, clocks.1)
}

/// The time of the kernel's stamp, which is one of the system clock, on the clock that is never
/// set.
fn on_clock(now: Instant, clock: SystemTime, stamp: SystemTime) -> Instant {
    match clock.duration_since(stamp) {
        Ok(age) => now.checked_sub(age).unwrap_or(now),
        Err(ahead) => now + ahead.duration(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_before_and_after_now() {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let some = Duration::from_micros(70);
        assert_eq!(on_clock(now, clock, clock - some) + some, now);
        assert_eq!(on_clock(now, clock, clock + some), now + some);
    }
}
