//! Sending: one message, or a run of them as one train.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use noq::udp::Transmit;
use tokio::io::Interest;

use super::Shared;
use crate::address::{Address, canonical};
use crate::counters::{Counters, as_count};
use crate::limits::{UDP_LARGEST, UDP_TRAIN_BYTES};
use crate::transport::{Link, SendError, Session};

pub(super) fn session(shared: &Arc<Shared>, remote: SocketAddr) -> Session {
    let remote = canonical(remote);
    Session::new(Arc::new(UdpLink {
        to: on_socket(remote, shared.v6),
        remote,
        shared: shared.clone(),
        longest: AtomicUsize::new(0),
    }))
}

#[derive(Debug)]
struct UdpLink {
    shared: Arc<Shared>,
    remote: SocketAddr,
    /// The remote as the socket takes it.
    to: SocketAddr,
    /// Bytes of the longest message that the system has taken.
    longest: AtomicUsize,
}

impl UdpLink {
    /// Hands the system one datagram, or several of `segment` bytes each but the last.
    fn transmit(&self, contents: &[u8], segment: Option<usize>) -> io::Result<()> {
        let transmit = Transmit {
            destination: self.to,
            ecn: None,
            contents,
            segment_size: segment,
            src_ip: None,
        };
        let Shared {
            socket, offload, ..
        } = &*self.shared;
        socket.try_io(Interest::WRITABLE, || {
            offload.try_send(socket.into(), &transmit)
        })
    }

    /// What became of `messages` messages of `bytes` bytes, the longest of `longest`; false if the
    /// system takes none now.
    fn account(
        &self,
        result: io::Result<()>,
        messages: usize,
        bytes: usize,
        longest: usize,
    ) -> bool {
        let counters = &self.shared.counters;
        match result {
            Ok(()) => {
                self.longest.fetch_max(longest, Ordering::Relaxed);
                counters.sent_many(messages, bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) if is_too_long(&error) && longest > self.longest.load(Ordering::Relaxed) => {
                counters.probes_refused.add_many(as_count(messages));
            }
            Err(error) => {
                // A route that is gone may come back: for an unreliable message it is a loss.
                tracing::debug!(remote = %self.remote, %error, "udp message lost");
                counters.failed.add_many(as_count(messages));
            }
        }
        true
    }

    /// Sends one message that is not too large; false if the system takes none now.
    fn send_one(&self, message: &[u8]) -> bool {
        let length = message.len();
        self.account(self.transmit(message, None), 1, length, length)
    }

    /// Sends a run of messages as [`run_length`] gives it; how many of them have gone.
    fn send_run(&self, run: &[&[u8]]) -> usize {
        if let [message] = run {
            return usize::from(self.send_one(message));
        }
        let segment = run.first().map(|message| message.len());
        // A panic elsewhere cannot harm bytes that are written again.
        let train = self.shared.train.lock();
        let mut train = train.unwrap_or_else(PoisonError::into_inner);
        train.clear();
        for message in run {
            train.extend_from_slice(message);
        }
        match self.transmit(&train, segment) {
            // The system, a device or the route has no offload: each for itself.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                drop(train);
                tracing::debug!(remote = %self.remote, %error, "udp messages go one by one");
                let mut run = run.iter();
                let taken = run.by_ref().take_while(|message| self.send_one(message));
                taken.count()
            }
            result => {
                if self.account(result, run.len(), train.len(), segment.unwrap_or(0)) {
                    run.len()
                } else {
                    0
                }
            }
        }
    }
}

impl Link for UdpLink {
    fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        if message.len() > UDP_LARGEST {
            self.shared.counters.too_large.add();
            return Err(SendError::TooLarge {
                size: message.len(),
                mtu: UDP_LARGEST,
            });
        }
        if self.send_one(message) {
            Ok(())
        } else {
            Err(SendError::WouldBlock)
        }
    }

    fn offer_all(&self, messages: &[&[u8]]) -> Result<usize, SendError> {
        let mut rest = messages;
        while let Some(first) = rest.first() {
            let segments = if first.len() > self.longest.load(Ordering::Relaxed) {
                // It asks what the way takes. In a train that the system refuses for it, it would
                // end trains on this socket for good.
                1
            } else {
                self.shared.offload.max_gso_segments().get()
            };
            let run = run_length(rest, segments);
            let Some((run, later)) = rest.split_at_checked(run) else {
                break;
            };
            let gone = if first.len() > UDP_LARGEST {
                self.shared.counters.too_large.add();
                run.len()
            } else {
                self.send_run(run)
            };
            if gone < run.len() {
                let left = rest.len().saturating_sub(gone);
                return Ok(messages.len().saturating_sub(left));
            }
            rest = later;
        }
        Ok(messages.len())
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn remote(&self) -> Address {
        Address::Udp(self.remote)
    }

    fn mtu(&self) -> usize {
        UDP_LARGEST
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// Whether the system knows that the way takes no datagram of this length (the device's MTU, or
/// what a router has said).
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

/// How many of the first messages make one train: all of the size of the first, but the last may be
/// shorter. At least one; only that one if it is too large.
fn run_length(messages: &[&[u8]], segments: usize) -> usize {
    let segment = messages.first().map_or(0, |message| message.len());
    let longest = match segment {
        // Neither is a train.
        0 => 1,
        _ if segment > UDP_LARGEST => 1,
        _ => segments
            .min(UDP_TRAIN_BYTES.checked_div(segment).unwrap_or(1))
            .max(1),
    };
    let full = messages.iter().take(longest);
    let full = full.take_while(|message| message.len() == segment).count();
    let last = messages.get(full).filter(|_| full < longest);
    let shorter = last.is_some_and(|message| (1..segment).contains(&message.len()));
    full.saturating_add(usize::from(shorter))
}

/// The address as the socket takes it: IPv4 is mapped on an IPv6 socket.
fn on_socket(remote: SocketAddr, v6: bool) -> SocketAddr {
    match remote {
        SocketAddr::V4(v4) if v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(sizes: &[usize], segments: usize) -> usize {
        let bytes = vec![0; UDP_LARGEST + 1];
        let messages: Vec<&[u8]> = sizes.iter().map(|size| &bytes[..*size]).collect();
        run_length(&messages, segments)
    }

    /// A length that the path has never taken is a probe.
    #[tokio::test]
    async fn refused_length_is_lost_only_if_it_passed() {
        let (queue, _incoming) = tokio::sync::mpsc::channel(1);
        let options = crate::UdpOptions {
            listen: Some((std::net::Ipv4Addr::LOCALHOST, 0).into()),
            ..crate::UdpOptions::default()
        };
        let udp = crate::UdpTransport::start(options, queue).unwrap();
        let link = UdpLink {
            to: udp.local,
            remote: udp.local,
            shared: udp.shared.clone(),
            longest: AtomicUsize::new(0),
        };
        let too_long = || Err(rustix::io::Errno::MSGSIZE.into());
        let counted = || {
            let counters = crate::Transport::counters(&udp);
            (counters.probes_refused, counters.failed, counters.sent)
        };
        assert!(link.account(Ok(()), 1, 1200, 1200));
        assert!(link.account(too_long(), 1, 8952, 8952));
        assert_eq!(counted(), (1, 0, 1), "nothing is lost of a probe");
        assert!(link.account(Ok(()), 1, 1452, 1452));
        assert!(link.account(too_long(), 3, 4356, 1452));
        assert_eq!(counted(), (1, 3, 2), "the way has become narrow");
    }

    #[test]
    fn only_the_last_of_a_train_is_shorter() {
        assert_eq!(run(&[], 64), 0);
        assert_eq!(run(&[5], 64), 1);
        assert_eq!(run(&[5, 5, 5], 64), 3);
        assert_eq!(run(&[5, 5, 4, 5], 64), 3);
        assert_eq!(run(&[5, 5, 6, 6], 64), 2);
        assert_eq!(run(&[5, 4, 4], 64), 2);
        assert_eq!(run(&[5, 0, 5], 64), 1, "an empty datagram is no segment");
        assert_eq!(run(&[0, 0], 64), 1);
        assert_eq!(run(&[UDP_LARGEST + 1, UDP_LARGEST + 1], 64), 1);
        assert_eq!(run(&[UDP_LARGEST; 5], 1), 1, "the system has no offload");
        assert_eq!(run(&[5, 5, 5, 4], 3), 3);
        assert_eq!(run(&[UDP_LARGEST; 100], 64), UDP_TRAIN_BYTES / UDP_LARGEST);
        assert_eq!(run(&[100; 100], 64), 64);
    }
}
