//! Internet Relay Chat with programs that people use: ngIRCd, and irssi in a terminal of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::{Host, Running, TestbedError};

/// The channel that everybody enters.
const CHANNEL: &str = "#talk";

/// Starts ngIRCd on a host, with its files in `folder`.
///
/// # Errors
/// When a file cannot be written or it cannot be started.
pub fn start_ngircd(
    host: &Host,
    folder: &Path,
    listen: SocketAddr,
) -> Result<Running, TestbedError> {
    let configuration = format!(
        "[Global]\nName = irc.example.net\nInfo = a test\nListen = {}\nPorts = {}\nMotdPhrase = hello\n\
         [Limits]\nMaxPenaltyTime = 0\n[Options]\nDNS = no\nIdent = no\nPAM = no\n[Channel]\nName = {CHANNEL}\n",
        listen.ip(),
        listen.port()
    );
    let file = folder.join("ngircd.conf");
    fs::write(&file, configuration).map_err(|error| TestbedError::of("starting ngircd", error))?;
    let mut command = host.command("/usr/sbin/ngircd");
    command.arg("--nodaemon").arg("--config").arg(file);
    Running::start(command, &folder.join("ngircd.log"))
}

/// Somebody at irssi. What is typed goes to the channel, or is a command.
#[derive(Debug)]
pub struct Irssi {
    running: Running,
    folder: PathBuf,
}

impl Irssi {
    /// Starts it; it logs all that is said and takes every file that it is sent. Where it is not
    /// let in it calls again after ten seconds, the least that it can be told.
    ///
    /// # Errors
    /// When a file cannot be written or it cannot be started.
    pub fn start(
        host: &Host,
        folder: &Path,
        nick: &str,
        server: SocketAddr,
    ) -> Result<Irssi, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("starting irssi", error);
        let folder = folder.join(nick);
        fs::create_dir_all(folder.join("taken")).map_err(wrong)?;
        let here = folder.display();
        let configuration = format!(
            "settings = {{\n core = {{ real_name = \"{nick}\"; user_name = \"{nick}\"; nick = \"{nick}\";\n\
             server_reconnect_time = \"10s\"; server_connect_timeout = \"5s\"; }};\n\
             \"irc/dcc\" = {{ dcc_autoget = \"yes\"; dcc_download_path = \"{here}/taken\"; }};\n\
             \"irc/core\" = {{ cmd_queue_speed = \"10msec\"; }};\n\
             \"fe-common/core\" = {{ autolog = \"yes\"; autolog_path = \"{here}/$0.log\"; }};\n}};\n"
        );
        fs::write(folder.join("config"), configuration).map_err(wrong)?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/terminal.py");
        let mut command = host.command("/usr/bin/python3");
        command
            .arg(script)
            .arg("irssi")
            .arg(format!("--home={here}"));
        command.args(["-n", nick, "-c", &server.ip().to_string()]);
        command.args(["-p", &server.port().to_string()]);
        let running = Running::start(command, &folder.join("screen"))?;
        Ok(Irssi { running, folder })
    }

    /// Types a line.
    ///
    /// # Errors
    /// When it has ended.
    pub fn say(&mut self, line: &str) -> Result<(), TestbedError> {
        self.running.type_line(line)
    }

    /// Enters the channel, once the server has let it in.
    ///
    /// # Errors
    /// When it has ended.
    pub fn enter(&mut self) -> Result<(), TestbedError> {
        self.say(&format!("/join {CHANNEL}"))
    }

    /// Whether it has shown this: anything, also what the server says.
    #[must_use]
    pub fn has_shown(&self, text: &str) -> bool {
        self.running.log_text().contains(text)
    }

    /// All that was said in the channel and in private.
    #[must_use]
    pub fn log(&self) -> String {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let logs = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "log"));
        let texts = logs.filter_map(|entry| fs::read(entry.path()).ok());
        texts
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    /// Where a file that it took is.
    #[must_use]
    pub fn taken(&self, name: &str) -> PathBuf {
        self.folder.join("taken").join(name)
    }
}
