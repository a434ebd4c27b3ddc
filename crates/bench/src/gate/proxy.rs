//! A proxy that takes connections by redirection of their port: squid, alone or with a scan of each
//! answer by clamd, over ICAP.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::border::{Border, SERVER, Side};
use crate::limits::CHILD_END;
use ringway_terminal::Failure;

/// Where the proxy takes connections that were meant for others.
pub(super) const INTERCEPTED: u16 = 3_129;
/// Where it takes those that are meant for it; used to see that it is there.
const DIRECT: u16 = 3_128;
const ICAP: u16 = 1_344;
/// How long both may take to start.
const START: Duration = Duration::from_secs(20);
/// Where libraries are; below it, in a folder for the machine's kind, c-icap's modules.
const LIBRARIES: &str = "/usr/lib";

/// The running programs.
#[derive(Debug)]
pub(super) struct Proxy {
    squid: Child,
    icap: Option<Child>,
    folder: TempDir,
}

impl Proxy {
    /// Starts it in the gateway; with `clamd` each answer is scanned before its receiver has all of
    /// it. `None`: it is not installed.
    pub(super) fn start(border: &Border, clamd: Option<&Path>) -> Result<Option<Proxy>, Failure> {
        let modules = modules();
        if !is_there("/usr/sbin/squid", &["-v"]) || (clamd.is_some() && modules.is_none()) {
            return Ok(None);
        }
        let folder = tempfile::tempdir().map_err(Failure::failed)?;
        // Squid gives up root, and writes its files as this user of Debian's.
        let owned = Command::new("chown")
            .arg("proxy")
            .arg(folder.path())
            .status();
        if !owned.is_ok_and(|status| status.success()) {
            return Err(Failure::failed(
                "squid's folder cannot be given to the user `proxy`",
            ));
        }
        let write = |name: &str, text: String| -> Result<_, Failure> {
            let path = folder.path().join(name);
            std::fs::write(&path, text).map_err(Failure::failed)?;
            Ok(path)
        };
        let icap = match clamd.zip(modules) {
            None => None,
            Some((clamd, modules)) => {
                let text = icap_configuration(folder.path(), &modules, clamd);
                let file = write("c-icap.conf", text)?;
                let mut command = border.command(Side::Gateway, "/usr/bin/c-icap");
                let icap = quiet(command.arg("-N").arg("-f").arg(file))?;
                wait_for(border, ICAP)?;
                Some(icap)
            }
        };
        write("hosts", format!("127.0.0.1 localhost\n{SERVER} server\n"))?;
        let file = write("squid.conf", configuration(folder.path(), clamd.is_some()))?;
        let mut command = border.command(Side::Gateway, "/usr/sbin/squid");
        let squid = quiet(command.arg("-N").arg("-f").arg(file))?;
        let proxy = Proxy {
            squid,
            icap,
            folder,
        };
        match wait_for(border, DIRECT) {
            Ok(()) => Ok(Some(proxy)),
            Err(failure) => {
                proxy.end();
                Err(failure)
            }
        }
    }

    /// Ends it.
    pub(super) fn end(mut self) {
        // It has ended meanwhile, or is ended now.
        self.squid.kill().ok();
        self.squid.wait().ok();
        let Some(mut icap) = self.icap.take() else {
            return;
        };
        // It has children of its own, which only it can end.
        let notified = OpenOptions::new()
            .write(true)
            .open(self.folder.path().join("c-icap.ctl"))
            .and_then(|mut pipe| pipe.write_all(b"stop"));
        let began = Instant::now();
        while notified.is_ok() && began.elapsed() < CHILD_END {
            if !matches!(icap.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        icap.kill().ok();
        icap.wait().ok();
    }
}

fn is_there(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// The folder of c-icap's modules, if the one that scans is there, and c-icap.
fn modules() -> Option<PathBuf> {
    let folders = std::fs::read_dir(LIBRARIES).ok()?.filter_map(Result::ok);
    let mut folders = folders.map(|folder| folder.path().join("c_icap"));
    let found = folders.find(|folder| {
        let there = |name: &str| folder.join(name).exists();
        there("virus_scan.so") && there("clamd_mod.so")
    });
    found.filter(|_| is_there("/usr/bin/c-icap", &["-V"]))
}

fn quiet(command: &mut Command) -> Result<Child, Failure> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    command
        .stderr(Stdio::null())
        .spawn()
        .map_err(Failure::failed)
}

/// Waits until something listens in the gateway.
fn wait_for(border: &Border, port: u16) -> Result<(), Failure> {
    let waiting = border.at(Side::Gateway, move || {
        let began = Instant::now();
        while began.elapsed() < START {
            if TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    });
    let there = waiting.map_err(Failure::failed)?.join();
    match there {
        Ok(Ok(true)) => Ok(()),
        _ => Err(Failure::failed(format_args!(
            "nobody listens at port {port} of the gateway: squid or c-icap did not start"
        ))),
    }
}

/// Names of files are looked at, and each answer written down, as the gateway's own configuration
/// does; nothing is stored.
fn configuration(folder: &Path, scans: bool) -> String {
    let folder = folder.display();
    let scan = if scans {
        format!(
            "icap_enable on\nicap_service scan respmod_precache bypass=off icap://127.0.0.1:{ICAP}/virus_scan\n\
             adaptation_access scan allow all\n"
        )
    } else {
        String::new()
    };
    format!(
        "http_port 127.0.0.1:{DIRECT}\nhttp_port {INTERCEPTED} intercept\nvisible_hostname border\n\
         pid_filename {folder}/squid.pid\ncoredump_dir {folder}\ncache_log {folder}/cache.log\n\
         access_log stdio:{folder}/access.log\nhosts_file {folder}/hosts\ncache deny all\ncache_mem 0\n\
         pinger_enable off\nread_ahead_gap 1 MB\nnetdb_filename none\nshutdown_lifetime 0 seconds\n\
         client_persistent_connections off\nserver_persistent_connections off\n\
         acl refused urlpath_regex -i \\.exe$\nhttp_access deny refused\nhttp_access allow all\n{scan}"
    )
}

fn icap_configuration(folder: &Path, modules: &Path, clamd: &Path) -> String {
    let (folder, modules, clamd) = (folder.display(), modules.display(), clamd.display());
    format!(
        "PidFile {folder}/c-icap.pid\nCommandsSocket {folder}/c-icap.ctl\nPort 127.0.0.1:{ICAP}\n\
         StartServers 1\nMaxServers 2\nMinSpareThreads 10\nMaxSpareThreads 120\nThreadsPerChild 120\n\
         KeepAliveTimeout 600\nMaxKeepAliveRequests -1\nPipelining on\nTmpDir {folder}\nMaxMemObject 4194304\n\
         ServerLog {folder}/icap.log\nAccessLog {folder}/icap-access.log\nDebugLevel 0\n\
         ModulesDir {modules}\nServicesDir {modules}\nTemplateDir /usr/share/c_icap/templates/\n\
         TemplateDefaultLanguage en\nLoadMagicFile /etc/c-icap/c-icap.magic\n\
         Service antivirus_module virus_scan.so\nvirus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE GIF JPEG MSOFFICE\n\
         virus_scan.SendPercentData 0\nvirus_scan.MaxObjectSize 100M\nvirus_scan.DefaultEngine clamd\n\
         Module common clamd_mod.so\nclamd_mod.ClamdSocket {clamd}\n"
    )
}
