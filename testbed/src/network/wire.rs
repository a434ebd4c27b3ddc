//! A cable with a delay, loss and a rate: a thread that carries frames between two TAP devices.
//!
//! The kernel's own emulator, `netem`, is missing from many kernels; TAP devices are everywhere.
//! They have no offloads, so what is delayed or lost is one packet as it would be on a cable.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::host::Host;
use super::link::Line;
use crate::TestbedError;

/// Longest time in which the thread does not look whether it shall end.
const LOOK: Duration = Duration::from_millis(50);

/// Frames taken from one end before the other has its turn.
const BATCH: usize = 64;

/// Bytes of the longest frame.
const FRAME: usize = 64 * 1024;

/// What a test may change while frames pass.
#[derive(Debug)]
pub(super) struct Control {
    line: Mutex<Line>,
    up: AtomicBool,
    end: AtomicBool,
}

impl Control {
    pub(super) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
    }

    pub(super) fn set_line(&self, line: Line) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    fn line(&self) -> Line {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Wire {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Makes both interfaces, each on its host, and carries frames between them.
    pub(super) fn lay(ends: [(&Host, &str); 2], line: Line) -> Result<Wire, TestbedError> {
        let [first, second] = ends.map(|(host, interface)| open(host, interface));
        let devices = [first?, second?];
        let control = Arc::new(Control {
            line: Mutex::new(line),
            up: AtomicBool::new(true),
            end: AtomicBool::new(false),
        });
        let shared = Arc::clone(&control);
        let thread = thread::spawn(move || {
            // An interface that is gone has nothing more to carry.
            carry(&devices, &shared).ok();
        });
        Ok(Wire {
            control,
            thread: Some(thread),
        })
    }

    pub(super) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.control.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            thread.join().ok();
        }
    }
}

/// Makes a TAP device on a host.
fn open(host: &Host, interface: &str) -> Result<SyncDevice, TestbedError> {
    let opened = host.enter(|| {
        let builder = DeviceBuilder::new().name(interface).layer(Layer::L2);
        let device = builder.enable(false).build_sync()?;
        device.set_nonblocking(true)?;
        io::Result::Ok(device)
    });
    opened?.map_err(|error| TestbedError::of("making a TAP device", error))
}

fn carry(devices: &[SyncDevice; 2], control: &Control) -> io::Result<()> {
    let mut ways = [Way::new(1), Way::new(2)];
    let mut buffer = vec![0; FRAME];
    while !control.end.load(Ordering::Relaxed) {
        let next = ways.iter().filter_map(Way::next_due).min();
        let now = Instant::now();
        let pause = next.map_or(LOOK, |due| due.saturating_duration_since(now).min(LOOK));
        wait(devices, pause)?;
        let line = control.line();
        for (from, way) in ways.iter_mut().enumerate() {
            for _ in 0..BATCH {
                let length = match devices[from].recv(&mut buffer) {
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
                if control.up.load(Ordering::Relaxed) {
                    way.take(Instant::now(), &buffer[..length], &line);
                }
            }
            while let Some(frame) = way.due(Instant::now()) {
                // An interface that is down, or full, drops as a real one does.
                devices[1 - from].send(&frame).ok();
            }
        }
    }
    Ok(())
}

/// Waits until a device has a frame or the time is over.
fn wait(devices: &[SyncDevice; 2], pause: Duration) -> io::Result<()> {
    let mut ends = [
        PollFd::new(&devices[0], PollFlags::IN),
        PollFd::new(&devices[1], PollFlags::IN),
    ];
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: pause.subsec_nanos().into(),
    };
    match poll(&mut ends, Some(&pause)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Frames on their way in one direction.
#[derive(Debug)]
struct Way {
    /// By the time at which they arrive.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// When the last one arrives that is not late.
    last: Option<Instant>,
    /// When a line with a rate has sent all that it has.
    free: Option<Instant>,
    random: u64,
}

impl Way {
    fn new(seed: u64) -> Way {
        Way {
            waiting: VecDeque::new(),
            last: None,
            free: None,
            random: seed,
        }
    }

    /// A frame comes in.
    fn take(&mut self, now: Instant, frame: &[u8], line: &Line) {
        if self.chance() < line.loss {
            return;
        }
        let mut sent = now;
        if let Some(rate) = line.rate {
            let begin = self.free.map_or(now, |free| free.max(now));
            if begin.duration_since(now) > time_for(line.queue, rate) {
                return;
            }
            sent = begin + time_for(frame.len(), rate);
            self.free = Some(sent);
        }
        // In order, also when the delay has just become shorter.
        let due = sent + line.delay;
        let mut due = self.last.map_or(due, |last| due.max(last));
        if !line.scatter.is_zero() {
            due = sent + line.delay + line.scatter.mul_f64(self.chance());
        } else if line.late > 0.0 && self.chance() < line.late {
            due += line.lateness;
        } else {
            self.last = Some(due);
        }
        let place = self.waiting.partition_point(|(other, _)| *other <= due);
        self.waiting.insert(place, (due, frame.to_vec()));
    }

    fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// The next frame that has arrived.
    fn due(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (_, frame) = self.waiting.pop_front_if(|(due, _)| *due <= now)?;
        Some(frame)
    }

    /// From 0 to less than 1, the same sequence for the same seed (SplitMix64).
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        f64::from(u32::try_from(mixed >> 32).unwrap_or(0)) / 4_294_967_296.0
    }
}

/// How long so many bytes take.
fn time_for(bytes: usize, bits_per_second: u64) -> Duration {
    let bits = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(8);
    Duration::from_nanos(bits.saturating_mul(1_000_000_000) / bits_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: usize = 10_000;

    fn pass(line: &Line, frames: usize) -> Vec<Duration> {
        let (mut way, begin) = (Way::new(7), Instant::now());
        for _ in 0..frames {
            way.take(begin, &[0; 1_000], line);
        }
        let late = begin + Duration::from_secs(3_600);
        let mut passed = Vec::new();
        while let Some(due) = way.next_due() {
            way.due(late);
            passed.push(due - begin);
        }
        passed
    }

    #[test]
    fn a_frame_waits_for_its_delay() {
        let passed = pass(&Line::plain().delay_ms(20), 3);
        assert_eq!(passed, [Duration::from_millis(20); 3]);
    }

    #[test]
    fn a_late_frame_is_overtaken_and_all_arrive() {
        let (mut way, begin) = (Way::new(7), Instant::now());
        let line = Line::plain().late(0.3, 5);
        for number in 0..100_u8 {
            let now = begin + Duration::from_millis(number.into());
            way.take(now, &[number], &line);
        }
        let late = begin + Duration::from_secs(3_600);
        let frames: Vec<u8> = std::iter::from_fn(|| way.due(late))
            .map(|frame| frame[0])
            .collect();
        let overtaken = frames.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((10..40).contains(&overtaken), "{frames:?}");
        assert_eq!(frames.len(), 100);
    }

    #[test]
    fn about_as_many_are_lost_as_was_said() {
        let passed = pass(&Line::plain().loss(0.1), FRAMES).len();
        assert!(
            (FRAMES * 88 / 100..FRAMES * 92 / 100).contains(&passed),
            "{passed}"
        );
        assert_eq!(pass(&Line::plain().loss(1.0), FRAMES).len(), 0);
    }

    #[test]
    fn rate_spaces_frames_and_full_queue_drops() {
        let passed = pass(&Line::plain().rate(8_000_000, 10_000), 100);
        assert_eq!(passed[..2], [1, 2].map(Duration::from_millis));
        assert_eq!(passed.len(), 11, "ten wait while one is sent");
    }
}
