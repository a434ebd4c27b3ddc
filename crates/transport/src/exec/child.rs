//! One run of a child program: it starts, introduces itself, and speaks until it ends.

use std::io;
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::frame::{self, ChildHello, Frame, FrameError};
use super::log::{self, Log};
use super::{ExecOptions, Shared};
use crate::address::ExecAddress;
use crate::limits::{EXEC_FRAME_BYTES, EXEC_FRAME_TIME, EXEC_HELLO_TIME};
use crate::transport::Inbox;

/// Why a run ended.
#[derive(Debug, Error)]
pub(super) enum End {
    /// The receiver of messages is gone.
    #[error("we stopped")]
    Stopped,
    /// The child closed its output, most likely because it ended.
    #[error("it ended")]
    Ended,
    /// It said something else than frames.
    #[error("it broke the protocol: {0}")]
    Malformed(#[from] FrameError),
    /// It did not go on.
    #[error("it is stuck")]
    Stuck,
    /// The system.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

/// A child that has introduced itself.
#[derive(Debug)]
pub(super) struct Run {
    child: Group,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
    log: Log,
    name: String,
}

/// A child and whatever it starts: all end when this is dropped.
#[derive(Debug)]
struct Group(Child);

impl Group {
    fn kill(&self) {
        // There is an id until the child is waited for, so it is no other process's yet.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(Pid::from_raw) {
            // An error means that all have ended.
            kill_process_group(id, Signal::KILL).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Run {
    /// Starts the program and waits for its hello.
    pub(super) async fn start(options: &ExecOptions) -> Result<(Self, ChildHello), End> {
        let mut command = Command::new(&options.command);
        command.args(&options.arguments);
        // No secret of ours in the environment reaches somebody else's program.
        command.env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.envs(options.environment.iter().cloned());
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let mut run = Self {
            child: Group(child),
            stdin,
            stdout: BufReader::new(stdout),
            stderr,
            log: Log::new(&options.name),
            name: options.name.clone(),
        };
        let hello = timeout(EXEC_HELLO_TIME, run.hello()).await;
        let hello = hello.map_err(|_| End::Stuck)??;
        Ok((run, hello))
    }

    /// Reads up to the hello, which comes first or behind log lines.
    async fn hello(&mut self) -> Result<ChildHello, End> {
        // What a program says before it fails explains why it fails.
        let Self {
            stdout,
            stderr,
            log,
            name,
            ..
        } = self;
        let hello = async {
            loop {
                let bytes = read_frame(stdout).await?;
                match frame::decode(&bytes)? {
                    Frame::Hello(hello) => return Ok(hello),
                    Frame::Log(line) => {
                        log.line(line);
                    }
                    Frame::Message { .. } => return Err(FrameError::Hello.into()),
                }
            }
        };
        tokio::select! {
            biased;
            never = follow(stderr, name) => never,
            hello = hello => hello,
        }
    }

    /// Moves messages until the child ends or breaks the protocol, and sees to it that it is gone.
    pub(super) async fn speak(
        mut self,
        waiting: mpsc::Receiver<Vec<u8>>,
        shared: &Arc<Shared>,
        inbox: &Inbox,
    ) -> End {
        let Self {
            stdin,
            stdout,
            stderr,
            log,
            name,
            ..
        } = &mut self;
        let ended = tokio::select! {
            ended = read(stdout, log, shared, inbox) => ended,
            ended = write(stdin, waiting) => ended,
            never = follow(stderr, name) => never,
        };
        self.child.kill();
        // What hangs in the system is left to it.
        let gone = timeout(EXEC_FRAME_TIME, self.child.0.wait()).await;
        match gone.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(status) => tracing::debug!(name = self.name, %status, "the child program is gone"),
            Err(error) => tracing::debug!(name = self.name, %error, "the child program is lost"),
        }
        ended
    }
}

/// Logs what the child writes to stderr. A child may close it and go on, so this never ends.
async fn follow<T>(stderr: &mut ChildStderr, name: &str) -> T {
    log::follow(stderr, name).await;
    std::future::pending().await
}

/// Reads one frame, without its length.
async fn read_frame(stdout: &mut BufReader<ChildStdout>) -> Result<Vec<u8>, End> {
    let first = match stdout.read_u8().await {
        Ok(first) => first,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(End::Ended),
        Err(error) => return Err(error.into()),
    };
    let rest = timeout(EXEC_FRAME_TIME, async {
        let mut length = [first, 0, 0, 0];
        let (_, unread) = length.split_at_mut(1);
        stdout.read_exact(unread).await?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > EXEC_FRAME_BYTES {
            return Err(FrameError::Kind.into());
        }
        let mut frame = vec![0; length];
        stdout.read_exact(&mut frame).await?;
        Ok(frame)
    });
    rest.await.unwrap_or(Err(End::Stuck))
}

async fn read(
    stdout: &mut BufReader<ChildStdout>,
    log: &mut Log,
    shared: &Arc<Shared>,
    inbox: &Inbox,
) -> End {
    loop {
        let bytes = match read_frame(stdout).await {
            Ok(bytes) => bytes,
            Err(end) => return end,
        };
        let (from, message) = match frame::decode(&bytes) {
            Ok(Frame::Message { from, message }) => (from, message),
            Ok(Frame::Log(line)) => {
                log.line(line);
                continue;
            }
            Ok(Frame::Hello(_)) => return FrameError::Hello.into(),
            Err(error) => return error.into(),
        };
        let from = ExecAddress::new(&shared.name, from).ok();
        let Some(from) = from.filter(|_| message.len() <= shared.mtu()) else {
            return FrameError::Message.into();
        };
        let message = Bytes::copy_from_slice(message);
        if !inbox.deliver(shared.session(from), message) {
            return End::Stopped;
        }
    }
}

async fn write(stdin: &mut ChildStdin, mut waiting: mpsc::Receiver<Vec<u8>>) -> End {
    while let Some(frame) = waiting.recv().await {
        match timeout(EXEC_FRAME_TIME, stdin.write_all(&frame)).await {
            Ok(Ok(())) => {}
            // Its end shows on its output too, with all that it said before.
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return End::Ended;
            }
            Ok(Err(error)) => return error.into(),
            Err(_) => return End::Stuck,
        }
    }
    End::Stopped
}
