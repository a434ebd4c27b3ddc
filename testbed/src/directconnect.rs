//! Direct Connect with programs that people use: a hub (uhub), and EiskaltDC++'s daemon.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Host, Running, TestbedError};

/// Where the daemon takes orders, on loopback.
const ORDERS: &str = "http://127.0.0.1:3121/";
/// Where it takes connections of others.
const PORT: u16 = 3_000;

/// Starts a hub on a host, with its files in `folder`.
///
/// # Errors
/// When a file cannot be written or it cannot be started.
pub fn start_uhub(host: &Host, folder: &Path, port: u16) -> Result<Running, TestbedError> {
    let file = folder.join("uhub.conf");
    let text = format!("server_bind_addr=any\nserver_port={port}\nhub_name=test\n");
    fs::write(&file, text).map_err(|error| TestbedError::of("starting uhub", error))?;
    let mut command = host.command("uhub");
    command.arg("-v").arg("-c").arg(file);
    Running::start(command, &folder.join("uhub.log"))
}

/// Somebody at EiskaltDC++.
#[derive(Debug)]
pub struct Eiskalt {
    running: Running,
    host: Host,
    folder: PathBuf,
    hub: String,
}

impl Eiskalt {
    /// Starts the daemon. It shares what is in `NICK/shared`. It encrypts nothing: as it comes it
    /// takes and gives files over TLS only. The letter sets people apart.
    ///
    /// # Errors
    /// When a file cannot be written or it cannot be started.
    pub fn start(
        host: &Host,
        folder: &Path,
        (nick, letter): (&str, char),
        hub: SocketAddr,
    ) -> Result<Eiskalt, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("starting eiskaltdcpp", error);
        let folder = folder.join(nick);
        for below in ["shared", "taken"] {
            fs::create_dir_all(folder.join(below)).map_err(wrong)?;
        }
        let (here, address) = (folder.display(), host.address()?);
        let text = |name: &str, value: &str| format!("<{name} type=\"string\">{value}</{name}>\n");
        let number = |name: &str, value: u16| format!("<{name} type=\"int\">{value}</{name}>\n");
        let settings = [
            text("Nick", nick),
            text(
                "CID",
                &format!("{letter}WPNACQDBZRYXW3VHJVCJ64QBZNGHOHHHZWCLNQ"),
            ),
            text("ExternalIp", &address.to_string()),
            text("DownloadDirectory", &format!("{here}/taken/")),
            number("InPort", PORT),
            number("UDPPort", PORT),
            number("IncomingConnections", 0),
            number("UseTLS", 0),
            number("RequireTLS", 0),
            // As it comes it waits for a minute.
            number("HashingStartDelay", 0),
        ];
        let settings = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\n\
             <DCPlusPlus><Settings>\n{}</Settings>\n\
             <Share><Directory Virtual=\"shared\">{here}/shared/</Directory></Share>\n</DCPlusPlus>\n",
            settings.concat()
        );
        fs::write(folder.join("DCPlusPlus.xml"), settings).map_err(wrong)?;
        let mut command = host.command("eiskaltdcpp-daemon");
        command
            .arg("-v")
            .arg("-c")
            .arg(&folder)
            .arg("-l")
            .arg(&folder);
        let running = Running::start(command, &folder.join("out.log"))?;
        Ok(Eiskalt {
            running,
            host: host.clone(),
            folder,
            hub: format!("adc://{hub}"),
        })
    }

    /// What it shares by now, with sizes: files count once they are hashed.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn shares(&self) -> Result<String, TestbedError> {
        let list = self.order("share.list", &json!({ "separator": ";" }))?;
        Ok(list.as_str().unwrap_or_default().to_owned())
    }

    /// Enters the hub.
    ///
    /// # Errors
    /// When the daemon does not answer yet.
    pub fn enter(&self) -> Result<(), TestbedError> {
        self.order("hub.add", &json!({ "huburl": self.hub, "enc": "" }))
            .map(drop)
    }

    /// Whether somebody is in the hub with it.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn sees(&self, nick: &str) -> Result<bool, TestbedError> {
        let users = self.order(
            "hub.getusers",
            &json!({ "huburl": self.hub, "separator": ";" }),
        )?;
        let users = users.as_str().unwrap_or_default();
        Ok(users.split(';').any(|user| user == nick))
    }

    /// Asks somebody for the list of what he shares.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn ask_for_list(&self, nick: &str) -> Result<(), TestbedError> {
        self.order(
            "list.download",
            &json!({ "huburl": self.hub, "nick": nick }),
        )
        .map(drop)
    }

    /// The list that it got, by name.
    #[must_use]
    pub fn list(&self) -> Option<String> {
        let entries = fs::read_dir(self.folder.join("FileLists")).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .find(|name| name.ends_with(".bz2"))
    }

    /// Asks for a file of that list. The list is there by name before it has come whole, and what
    /// is not whole is opened as an empty one, which has to be closed before it can be read
    /// again.
    ///
    /// # Errors
    /// When the daemon does not answer, or the list does not have the file, maybe not yet.
    pub fn ask_for(&self, list: &str, name: &str) -> Result<(), TestbedError> {
        let opened = json!({ "filelist": list });
        self.order("list.close", &opened)?;
        self.order("list.open", &opened)?;
        let order = json!({
            "target": format!("shared\\{name}"),
            "downloadto": format!("{}/taken/", self.folder.display()),
            "filelist": list,
        });
        match self.order("list.downloadfile", &order)?.as_u64() {
            Some(0) => Ok(()),
            _ => Err(TestbedError(format!("{name} is not in {list}"))),
        }
    }

    /// A file that it has taken.
    #[must_use]
    pub fn taken(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join("taken").join(name)).ok()
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.log_text()
    }

    fn order(&self, method: &str, parameters: &Value) -> Result<Value, TestbedError> {
        let order = json!({ "jsonrpc": "2.0", "id": "1", "method": method, "params": parameters });
        let order = order.to_string();
        let answer = self
            .host
            .check(&["curl", "-s", "--max-time", "20", "-d", &order, ORDERS])?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|error| TestbedError::of(&format!("{method}: {answer}"), error))?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(TestbedError(format!("{method}: {answer}"))),
        }
    }
}
