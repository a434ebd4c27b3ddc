//! libtorrent's uTP, by a Python program that takes the place of this one.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;

pub(crate) const NAME: &str = "libtorrent";

const PROGRAM: &str = include_str!("libtorrent.py");

/// A Python that has libtorrent. The system's own may be hidden behind another one.
pub(crate) fn python() -> Option<&'static str> {
    let has = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", "import libtorrent"]);
        let quiet = command.stdin(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    ["python3", "/usr/bin/python3"].into_iter().find(has)
}

pub(crate) fn receive(at: SocketAddr) -> Result<(), Failure> {
    become_python(["receive".to_owned(), at.to_string()].into())
}

pub(crate) fn send(to: SocketAddr, time: Duration) -> Result<(), Failure> {
    let seconds = time.as_secs_f64().to_string();
    become_python(["send".to_owned(), to.to_string(), seconds].into())
}

/// Goes on as the Python program; returns only if there is none.
fn become_python(mut arguments: Vec<String>) -> Result<(), Failure> {
    let python = python().ok_or("no Python here has libtorrent: apt install python3-libtorrent")?;
    arguments.extend(std::env::args().filter(|argument| argument == "--cpu"));
    let error = Command::new(python)
        .args(["-c", PROGRAM])
        .args(arguments)
        .exec();
    Err(format!("{python} could not be run: {error}").into())
}
