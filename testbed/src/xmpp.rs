//! XMPP with programs that people use: Prosody, and slixmpp behind a small script.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::{Host, Running, TestbedError};

const PASSWORD: &str = "secret";

/// Starts Prosody on a host, with its files in `folder`, for people of these names at
/// `example.net`. Nothing is encrypted.
///
/// # Errors
/// When a file cannot be written or it cannot be started.
pub fn start_prosody(
    host: &Host,
    folder: &Path,
    listen: SocketAddr,
    people: &[String],
) -> Result<Running, TestbedError> {
    let wrong = |error: std::io::Error| TestbedError::of("starting prosody", error);
    let folder = folder.join("prosody");
    let accounts = folder.join("data/example%2enet/accounts");
    fs::create_dir_all(&accounts).map_err(wrong)?;
    for name in people {
        let account = format!("return {{ [\"password\"] = \"{PASSWORD}\"; }};\n");
        fs::write(accounts.join(format!("{name}.dat")), account).map_err(wrong)?;
    }
    let (here, address, port) = (folder.display(), listen.ip(), listen.port());
    let configuration = format!(
        "run_as_root = true\npidfile = \"{here}/pid\"\ndata_path = \"{here}/data\"\n\
         interfaces = {{ \"{address}\" }}\nc2s_ports = {{ {port} }}\n\
         modules_enabled = {{ \"roster\"; \"saslauth\"; \"disco\"; \"ping\"; }}\nmodules_disabled = {{ \"s2s\"; \"tls\"; }}\n\
         c2s_require_encryption = false\nallow_unencrypted_plain_auth = true\nauthentication = \"internal_plain\"\n\
         log = {{ info = \"{here}/log\" }}\nVirtualHost \"example.net\"\n\
         Component \"proxy.example.net\" \"proxy65\"\n  proxy65_address = \"{address}\"\n  proxy65_acl = {{ \"example.net\" }}\n"
    );
    let file = folder.join("prosody.cfg.lua");
    fs::write(&file, configuration).map_err(wrong)?;
    let mut command = host.command("prosody");
    command.arg("-F").arg("--config").arg(file);
    Running::start(command, &folder.join("screen"))
}

/// Somebody who talks there.
#[derive(Debug)]
pub struct Talker {
    running: Running,
    folder: PathBuf,
}

impl Talker {
    /// Starts the program; it signs in, calling again every few seconds until it is let in, and
    /// takes every file that it is sent.
    ///
    /// # Errors
    /// When its folder cannot be made or it cannot be started.
    pub fn start(
        host: &Host,
        folder: &Path,
        name: &str,
        server: SocketAddr,
    ) -> Result<Talker, TestbedError> {
        let folder = folder.join(format!("talker-{name}"));
        fs::create_dir_all(&folder).map_err(|error| TestbedError::of("a folder", error))?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/xmpp.py");
        let mut command = host.command("/usr/bin/python3");
        command.arg(script).arg(Talker::address(name)).arg(PASSWORD);
        command
            .arg(server.ip().to_string())
            .arg(server.port().to_string());
        command.arg(&folder);
        let running = Running::start(command, &folder.join("said"))?;
        Ok(Talker { running, folder })
    }

    /// The full address of the user of this name.
    #[must_use]
    pub fn address(name: &str) -> String {
        format!("{name}@example.net/test")
    }

    /// Says something to somebody.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn say(&mut self, to: &str, text: &str) -> Result<(), TestbedError> {
        self.command("say", to, text)
    }

    /// Sends somebody a file within the conversation.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn send(&mut self, to: &str, path: &Path) -> Result<(), TestbedError> {
        self.command("send", to, &path.to_string_lossy())
    }

    /// Offers somebody a file and sends it by way of the server's proxy.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn pass(&mut self, to: &str, path: &Path) -> Result<(), TestbedError> {
        self.command("pass", to, &path.to_string_lossy())
    }

    fn command(&mut self, command: &str, to: &str, rest: &str) -> Result<(), TestbedError> {
        let to = Talker::address(to);
        self.running.type_line(&format!("{command} {to} {rest}"))
    }

    /// All that it has told: `calling`, `ready`, `message TEXT`, `file NAME`, `part NAME`, `failed
    /// REASON`.
    #[must_use]
    pub fn told(&self) -> String {
        self.running.log_text()
    }

    /// Whether it has told this line.
    #[must_use]
    pub fn has_told(&self, line: &str) -> bool {
        self.told().lines().any(|told| told == line)
    }

    /// A file that it has taken.
    #[must_use]
    pub fn taken(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join(name)).ok()
    }
}
