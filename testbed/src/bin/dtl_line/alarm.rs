//! Timers that are set ahead.
//!
//! A timer that is set to the earliest time of all makes the kernel program the processor's timer
//! at once; a virtual machine leaves its guest for that, which takes about 6 us. One that is set to
//! a later time costs a tenth of it: the kernel programs it when it handles the interrupt of the
//! one before, which it does in any case. So the next two times are always set.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::{self, Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Times that are set at once.
pub(crate) const AHEAD: usize = 2;

/// The shortest time that a timer can be set to: zero would disarm it.
const AT_ONCE: Duration = Duration::from_nanos(1);

/// Wakes at the next of some times.
#[derive(Debug)]
pub(crate) struct Alarm {
    timers: [OwnedFd; AHEAD],
    set: [Option<Instant>; AHEAD],
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        let timer = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        Ok(Alarm {
            timers: [timer()?, timer()?],
            set: [None; AHEAD],
        })
    }

    /// Sets these times, in order. A timer that has another is set again when it is needed; until
    /// then it may expire, which is not read.
    pub(crate) fn set(&mut self, times: [Option<Instant>; AHEAD]) -> io::Result<()> {
        for time in times.into_iter().flatten() {
            let other = |set: &Option<Instant>| set.is_none_or(|set| !times.contains(&Some(set)));
            if !self.set.contains(&Some(time))
                && let Some(place) = self.set.iter().position(other)
            {
                let pause = time.saturating_duration_since(Instant::now());
                start(&self.timers[place], pause.max(AT_ONCE))?;
                self.set[place] = Some(time);
            }
        }
        Ok(())
    }

    /// Blocks until this time, which must be set, or a signal.
    pub(crate) fn wait(&mut self, time: Instant) -> io::Result<()> {
        let Some(place) = self.set.iter().position(|set| *set == Some(time)) else {
            return Ok(());
        };
        let mut expirations = [0; size_of::<u64>()];
        match read(&self.timers[place], &mut expirations) {
            Ok(_) => self.set[place] = None,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Starts a timer again; that it has expired before is forgotten.
fn start(timer: &OwnedFd, pause: Duration) -> io::Result<()> {
    let once = Timespec::default();
    let value = Timespec {
        tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: pause.subsec_nanos().into(),
    };
    let value = Itimerspec {
        it_interval: once,
        it_value: value,
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &value)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_in_order_and_not_early() {
        let mut alarm = Alarm::new().unwrap();
        let begin = Instant::now();
        let time = |number: u32| begin + Duration::from_micros(300) * number;
        for number in 0..50 {
            alarm
                .set([Some(time(number)), Some(time(number + 1))])
                .unwrap();
            alarm.wait(time(number)).unwrap();
            assert!(Instant::now() >= time(number));
        }
        // One that has passed does not block, nor does the same again.
        for _ in 0..2 {
            alarm.set([Some(begin), None]).unwrap();
            alarm.wait(begin).unwrap();
        }
    }
}
