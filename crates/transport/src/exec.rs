//! Messages over a child program: a transport in any language, without an ABI.
//!
//! [`ExecTransport`] documents the frames that a program speaks.

mod child;
mod frame;
mod log;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use self::child::{End, Run};
use self::frame::ChildHello;
use crate::address::{Address, AddressDescriptor, ExecAddress, Protocol};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::{EXEC_HELLO_TIME, EXEC_PAUSE, EXEC_PAUSE_LONGEST, EXEC_QUEUE};
use crate::transport::{
    BoxFuture, ConnectError, Inbox, Incoming, Link, SendError, Session, StartError, Transport,
};

/// How to start an [`ExecTransport`].
#[derive(Debug, Clone, Default)]
pub struct ExecOptions {
    /// The transport's name in addresses: lower-case letters, digits and hyphens.
    pub name: String,
    /// The program, by its absolute path.
    pub command: PathBuf,
    /// Its arguments. Everybody on the machine can read them: no secrets.
    pub arguments: Vec<OsString>,
    /// What its environment has besides `PATH`.
    pub environment: Vec<(OsString, OsString)>,
    /// Cost in HELLOs instead of the one that the program says.
    pub cost: Option<u32>,
}

/// The `exec` transport: a child program moves the messages. Dropping it kills the program and all
/// that it started.
///
/// We start the program, and it speaks frames on its standard input and output. What it does with
/// messages is its own matter: a shared folder (`examples/exec-folder`), a radio, a chat network.
///
/// # Frames
/// A frame is a length (four bytes, big endian, of all that follows), one byte of kind, and a body:
///
/// | kind | from | body |
/// |---|---|---|
/// | `H` | the child, once, first | a JSON object, below |
/// | `M` | the child: a message arrived | length of the address (two bytes, big endian), address, message |
/// | `M` | us: send a message | the same |
/// | `L` | the child | one line of text for our log |
///
/// An address in a frame is what stands behind `exec://NAME/` in an address, at most about 190
/// bytes of visible ASCII: in a frame to the child the one to send to, in a frame from it the one
/// to answer to. It may be empty if there is none.
///
/// The hello has these fields; unknown ones are ignored:
/// - `version`: of these frames (1)
/// - `mtu`: 1 to 65 536 bytes
/// - `cost`: less is better; UDP has 10, TCP 20
/// - `latency`: the class, `interactive`, `seconds` or `minutes`
/// - `addresses`: our own, which may be missing if we cannot be reached
///
/// ```json
/// {"version": 1, "mtu": 16384, "cost": 200, "latency": "seconds", "addresses": ["oslo"]}
/// ```
///
/// # What a child may rely on
/// Messages may be lost, doubled and come in any order; the child need not repeat anything, and
/// should drop what it cannot send now. Its environment has `PATH` and what the options add, its
/// working directory is `/`, and it leads a process group. What it writes to stderr goes to our
/// log, at most [`EXEC_LINES`](crate::limits::EXEC_LINES) lines a minute. When its standard input
/// ends it should end, and when we stop, it and its group are killed. If it ends, breaks the frames
/// or is stuck, it is started again, after pauses that grow up to [`EXEC_PAUSE_LONGEST`]; until
/// then nothing is sent.
#[derive(Debug)]
pub struct ExecTransport {
    shared: Arc<Shared>,
    /// Held for its drop: it ends the task and so the program.
    _stop: watch::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    cost: Option<u32>,
    /// Of the latest run.
    hello: Mutex<ChildHello>,
    /// To the child that runs; `None` while none does.
    queue: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    closed: AtomicBool,
    counters: Arc<Counters>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds it leaves the value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn mtu(&self) -> usize {
        lock(&self.hello).mtu
    }

    fn session(self: &Arc<Self>, remote: ExecAddress) -> Session {
        Session::new(Arc::new(ExecLink {
            shared: self.clone(),
            remote,
        }))
    }
}

impl ExecTransport {
    /// Starts the program and waits until it has introduced itself, at most
    /// [`EXEC_HELLO_TIME`].
    ///
    /// # Errors
    /// [`StartError`] if the name is none, or the program does not start or does not introduce
    /// itself.
    pub async fn start(
        options: ExecOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        if let Err(error) = ExecAddress::new(&options.name, "") {
            return Err(StartError::Option {
                protocol: Protocol::Exec,
                reason: error.to_string(),
            });
        }
        let failed = |source| StartError::File {
            protocol: Protocol::Exec,
            path: options.command.clone(),
            source,
        };
        if !options.command.is_absolute() {
            return Err(failed(io::Error::other("an absolute path is needed")));
        }
        let (run, hello) = Run::start(&options).await.map_err(|end| match end {
            End::Failed(source) => failed(source),
            other => failed(no_hello(&other)),
        })?;
        let counters = Arc::new(Counters::default());
        let shared = Arc::new(Shared {
            name: options.name.clone(),
            cost: options.cost,
            hello: Mutex::new(hello),
            queue: Mutex::new(None),
            closed: AtomicBool::new(false),
            counters: counters.clone(),
        });
        let (stop, mut stopped) = watch::channel(());
        let supervised = supervise(
            run,
            open_queue(&shared),
            options,
            shared.clone(),
            Inbox::new(incoming, counters),
        );
        tokio::spawn(async move {
            tokio::select! {
                () = supervised => {}
                _ = stopped.changed() => {}
            }
        });
        Ok(Self {
            shared,
            _stop: stop,
        })
    }

    /// The name in its addresses.
    pub fn name(&self) -> &str {
        &self.shared.name
    }
}

impl Drop for ExecTransport {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

/// What to say of a program that is no transport.
fn no_hello(end: &End) -> io::Error {
    let how = match end {
        End::Stuck => format!("within {} s it said no hello", EXEC_HELLO_TIME.as_secs()),
        other => format!("{other}, without a hello"),
    };
    io::Error::other(format!(
        "{how}; a program that carries messages speaks frames on its standard input and output and says hello first: \
         see the documentation, \u{201c}Use another transport\u{201d}, section \u{201c}A program of your own\u{201d}"
    ))
}

/// From now on messages are taken for the child that runs.
fn open_queue(shared: &Shared) -> mpsc::Receiver<Vec<u8>> {
    let (queue, waiting) = mpsc::channel(EXEC_QUEUE);
    *lock(&shared.queue) = Some(queue);
    waiting
}

/// Keeps the program running.
async fn supervise(
    mut run: Run,
    mut waiting: mpsc::Receiver<Vec<u8>>,
    options: ExecOptions,
    shared: Arc<Shared>,
    inbox: Inbox,
) {
    let mut pause = EXEC_PAUSE;
    loop {
        let started = Instant::now();
        let ended = run.speak(waiting, &shared, &inbox).await;
        *lock(&shared.queue) = None;
        if started.elapsed() >= EXEC_PAUSE_LONGEST {
            pause = EXEC_PAUSE;
        }
        if !note(&shared, &ended) {
            return;
        }
        run = loop {
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(EXEC_PAUSE_LONGEST);
            match Run::start(&options).await {
                Ok((run, hello)) => {
                    *lock(&shared.hello) = hello;
                    break run;
                }
                Err(end) => {
                    note(&shared, &end);
                }
            }
        };
        waiting = open_queue(&shared);
    }
}

/// Counts why a run ended. False if there shall be no other.
fn note(shared: &Shared, ended: &End) -> bool {
    match ended {
        End::Stopped => {
            shared.closed.store(true, Ordering::Release);
            return false;
        }
        End::Malformed(_) => shared.counters.malformed.add(),
        End::Stuck => shared.counters.timed_out.add(),
        End::Ended | End::Failed(_) => shared.counters.failed.add(),
    }
    tracing::warn!(name = shared.name, %ended, "the child program is restarted");
    true
}

impl Transport for ExecTransport {
    fn protocol(&self) -> Protocol {
        Protocol::Exec
    }

    fn mtu(&self) -> usize {
        self.shared.mtu()
    }

    fn cost(&self) -> u32 {
        let said = lock(&self.shared.hello).cost;
        self.shared.cost.unwrap_or(said)
    }

    fn addresses(&self) -> Vec<AddressDescriptor> {
        let (cost, hello) = (self.cost(), lock(&self.shared.hello).clone());
        let mtu = u32::try_from(hello.mtu).unwrap_or(u32::MAX);
        let own = hello.addresses.iter();
        own.filter_map(|rest| ExecAddress::new(&self.shared.name, rest).ok())
            .map(|address| AddressDescriptor {
                latency: hello.latency,
                ..AddressDescriptor::new(Address::Exec(address), mtu, cost)
            })
            .collect()
    }

    fn accepts(&self, address: &Address) -> bool {
        matches!(address, Address::Exec(exec) if exec.name() == self.shared.name)
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>> {
        let session = match address {
            Address::Exec(exec) if self.accepts(address) => Ok(self.shared.session(exec.clone())),
            _ => Err(ConnectError::NotAccepted {
                address: address.clone(),
                protocol: Protocol::Exec,
            }),
        };
        Box::pin(std::future::ready(session))
    }

    fn counters(&self) -> CounterSnapshot {
        self.shared.counters.snapshot()
    }
}

#[derive(Debug)]
struct ExecLink {
    shared: Arc<Shared>,
    remote: ExecAddress,
}

impl ExecLink {}

impl Link for ExecLink {
    fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        let shared = &self.shared;
        let (size, mtu) = (message.len(), self.mtu());
        if size > mtu {
            shared.counters.too_large.add();
            return Err(SendError::TooLarge { size, mtu });
        }
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let queue = lock(&shared.queue).clone();
        let frame = frame::encode_message(self.remote.rest(), message);
        let (Some(queue), Some(frame)) = (queue, frame) else {
            return Err(SendError::WouldBlock);
        };
        match queue.try_send(frame) {
            Ok(()) => {
                shared.counters.sent(size);
                Ok(())
            }
            // A child that ended may be followed by another.
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => Err(SendError::WouldBlock),
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn remote(&self) -> Address {
        Address::Exec(self.remote.clone())
    }

    fn mtu(&self) -> usize {
        self.shared.mtu()
    }

    fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

/// Decodes a frame and whatever is in it.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    drop(frame::decode(data));
}
