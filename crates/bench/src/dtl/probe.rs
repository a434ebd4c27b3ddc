//! The round trip of the line as a stranger sees it: small packets there and back, whatever the
//! flows think of it.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::flow::joined;
use super::line::{End, Line};
use ringway_terminal::Failure;

/// Bytes of a probe on the line, with its headers.
const BYTES: f64 = 20.0 + 8.0 + 8.0;
/// Part of the rate that probes may take.
const PART: f64 = 0.002;
/// Time between two at least.
const PAUSE: Duration = Duration::from_millis(10);

/// When a probe left, since the beginning, and how long it took.
type Sample = (Duration, Duration);

/// Probes that go on until this is dropped.
#[derive(Debug)]
pub(super) struct Probe {
    samples: Arc<Mutex<Vec<Sample>>>,
    end: Arc<AtomicBool>,
}

impl Probe {
    pub(super) fn start(line: &Line, began: Instant, port: u16) -> Result<Probe, Failure> {
        let failed = |error| Failure::failed(format_args!("the line cannot be probed: {error}"));
        let probe = Probe {
            samples: Arc::default(),
            end: Arc::default(),
        };
        probe.run(line, began, port).map_err(failed)?;
        Ok(probe)
    }

    fn run(&self, line: &Line, began: Instant, port: u16) -> io::Result<()> {
        let pause = Duration::from_secs_f64(BYTES * 8.0 / (line.cell().rate * 1e6 * PART));
        let pause = pause.max(PAUSE);
        let there = line.receiver(port);
        let echo = joined(line.at(End::Receiver, move || UdpSocket::bind(there))?)??;
        let ours = joined(line.at(End::Sender, || UdpSocket::bind("0.0.0.0:0"))?)??;
        ours.connect(there)?;
        let look = Some(Duration::from_millis(200));
        echo.set_read_timeout(look)?;
        ours.set_read_timeout(look)?;
        let hears = ours.try_clone()?;
        let over = Arc::clone(&self.end);
        std::thread::spawn(move || {
            let mut buffer = [0; 8];
            while !over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = echo.recv_from(&mut buffer) {
                    // What is lost here is lost as on the line.
                    echo.send_to(buffer.get(..length).unwrap_or_default(), from)
                        .ok();
                }
            }
        });
        let over = Arc::clone(&self.end);
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let sent = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                ours.send(&sent.to_be_bytes()).ok();
                std::thread::sleep(pause);
            }
        });
        let (over, samples) = (Arc::clone(&self.end), Arc::clone(&self.samples));
        std::thread::spawn(move || {
            let mut buffer = [0; 8];
            while !over.load(Ordering::Relaxed) {
                if let Ok(8) = hears.recv(&mut buffer) {
                    let sent = Duration::from_nanos(u64::from_be_bytes(buffer));
                    let took = began.elapsed().saturating_sub(sent);
                    let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
                    samples.push((sent, took));
                }
            }
        });
        Ok(())
    }

    /// Round trips of the probes that left between these times, in seconds.
    pub(super) fn between(&self, from: f64, to: f64) -> Vec<(f64, f64)> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = samples
            .iter()
            .map(|(sent, took)| (sent.as_secs_f64(), took.as_secs_f64()));
        seconds
            .filter(|(sent, _)| (from..to).contains(sent))
            .collect()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}
