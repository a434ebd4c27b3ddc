//! An authoritative DNS server of the test's own, Knot or BIND: a zone, signed with DNSSEC, that a
//! TSIG key may update.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::program::finish;
use crate::{TestbedError, free_address, wait_until};

/// How long a server may take to start and to sign its zone.
const START: Duration = Duration::from_secs(60);

/// Name of the key by which the zone may be updated.
const KEY: &str = "ring-update";

/// A running Knot with one signed zone; killed when dropped.
#[derive(Debug)]
pub struct Knot {
    child: Option<Child>,
    program: PathBuf,
    folder: TempDir,
    zone: String,
    /// Where it answers, over UDP and TCP.
    pub address: SocketAddr,
}

impl Knot {
    /// One on loopback that serves `zone`. None where it is not installed.
    ///
    /// # Errors
    /// When its folder cannot be made or it does not start.
    pub fn start(zone: &str) -> Result<Option<Knot>, TestbedError> {
        Knot::start_with(zone, &empty_zone(zone))
    }

    /// The same with this zone file.
    ///
    /// # Errors
    /// As [`Knot::start`].
    pub fn start_with(zone: &str, file: &str) -> Result<Option<Knot>, TestbedError> {
        let (Some(program), Some(keymgr)) = (installed("knotd"), installed("keymgr")) else {
            return Ok(None);
        };
        let wrong = |error: std::io::Error| TestbedError::of("starting knotd", error);
        let folder = tempfile::tempdir().map_err(wrong)?;
        for below in ["run", "db", "zones"] {
            fs::create_dir(folder.path().join(below)).map_err(wrong)?;
        }
        let mut make_key = Command::new(keymgr);
        make_key.args(["-t", KEY, "hmac-sha256"]);
        let key = finish(make_key, "")?.stdout;
        write_secret(&folder.path().join("update.key"), &key)?;
        let address = free_address()?;
        let text = configuration(folder.path(), address, zone);
        fs::write(folder.path().join("knot.conf"), text).map_err(wrong)?;
        fs::write(folder.path().join("zones/zone"), file).map_err(wrong)?;
        let mut knot = Knot {
            child: None,
            program,
            folder,
            zone: zone.to_owned(),
            address,
        };
        knot.resume()?;
        Ok(Some(knot))
    }

    /// Starts it again where it was stopped; it has kept its zone.
    ///
    /// # Errors
    /// When it does not start.
    pub fn resume(&mut self) -> Result<(), TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("starting knotd", error);
        let log = fs::File::create(self.folder.path().join("log")).map_err(wrong)?;
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(self.folder.path().join("knot.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.child = Some(command.stderr(log).spawn().map_err(wrong)?);
        wait_until(START, || match self.log().contains("server started") {
            true => Ok(()),
            false => Err(TestbedError(self.log())),
        })
    }

    /// Ends it.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended already needs no end.
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// The file with the key by which the zone may be updated, as `keymgr -t` has written it.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("update.key")
    }

    /// The DNSSEC key by which a resolver may trust the zone, as a record.
    ///
    /// # Errors
    /// When `keymgr` does not give it.
    pub fn trust_anchor(&self) -> Result<String, TestbedError> {
        let keymgr = installed("keymgr").ok_or(TestbedError("keymgr is gone".to_owned()))?;
        let mut command = Command::new(keymgr);
        command.arg("-c").arg(self.folder.path().join("knot.conf"));
        let outcome = finish(with(command, &[&self.zone, "ds"]), "")?;
        let anchor = outcome.stdout.lines().next().map(str::to_owned);
        anchor.ok_or(TestbedError(outcome.stderr))
    }

    /// What it has logged since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Knot {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A running BIND with one zone; killed when dropped.
#[derive(Debug)]
pub struct Bind {
    child: Child,
    folder: TempDir,
    /// Where it answers, over UDP and TCP.
    pub address: SocketAddr,
}

impl Bind {
    /// One on loopback that serves `zone`. None where it is not installed.
    ///
    /// # Errors
    /// When its folder cannot be made or it does not start.
    pub fn start(zone: &str) -> Result<Option<Bind>, TestbedError> {
        let (Some(program), Some(keygen)) = (installed("named"), installed("tsig-keygen")) else {
            return Ok(None);
        };
        let wrong = |error: std::io::Error| TestbedError::of("starting named", error);
        let folder = tempfile::tempdir().map_err(wrong)?;
        let here = folder.path().display();
        let mut make_key = Command::new(keygen);
        make_key.args(["-a", "hmac-sha512", KEY]);
        let key = finish(make_key, "")?.stdout;
        write_secret(&folder.path().join("update.key"), &key)?;
        let address = free_address()?;
        let (ip, port) = (address.ip(), address.port());
        let text = format!(
            "include \"{here}/update.key\";\ncontrols {{ }};\n\
             options {{\n directory \"{here}\";\n pid-file \"{here}/pid\";\n session-keyfile \"{here}/session.key\";\n\
             listen-on port {port} {{ {ip}; }};\n listen-on-v6 {{ none; }};\n recursion no;\n dnssec-validation no;\n}};\n\
             zone \"{zone}\" {{\n type primary;\n file \"{here}/zone\";\n update-policy {{ grant {KEY} zonesub TXT; }};\n}};\n"
        );
        fs::write(folder.path().join("named.conf"), text).map_err(wrong)?;
        fs::write(folder.path().join("zone"), empty_zone(zone)).map_err(wrong)?;
        let log = fs::File::create(folder.path().join("log")).map_err(wrong)?;
        let mut command = Command::new(program);
        command
            .args(["-g", "-c"])
            .arg(folder.path().join("named.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(log).spawn().map_err(wrong)?;
        let bind = Bind {
            child,
            folder,
            address,
        };
        wait_until(START, || match bind.log().contains("all zones loaded") {
            true => Ok(()),
            false => Err(TestbedError(bind.log())),
        })?;
        Ok(Some(bind))
    }

    /// The file with the key by which the zone may be updated, as `tsig-keygen` has written it.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("update.key")
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Bind {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn with(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments);
    command
}

/// The file of a system's program, also where only root has its folder in PATH.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let files = folders.map(|folder| Path::new(folder).join(program));
    files.into_iter().find(|file| file.is_file())
}

fn write_secret(path: &Path, text: &str) -> Result<(), TestbedError> {
    let write = || {
        fs::write(path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
    };
    write().map_err(|error| TestbedError::of("writing a TSIG key", error))
}

fn empty_zone(zone: &str) -> String {
    format!(
        "$ORIGIN {zone}.\n$TTL 5\n@ SOA ns hostmaster 1 3600 600 604800 1\n@ NS ns\nns A 127.0.0.1\n"
    )
}

fn configuration(folder: &Path, address: SocketAddr, zone: &str) -> String {
    let (here, ip, port) = (folder.display(), address.ip(), address.port());
    format!(
        "server:\n    rundir: \"{here}/run\"\n    listen: {ip}@{port}\n\
         log:\n  - target: stderr\n    any: info\n\
         database:\n    storage: \"{here}/db\"\n    journal-db-max-size: 64M\n    kasp-db-max-size: 16M\n    timer-db-max-size: 16M\n\
         include: \"{here}/update.key\"\n\
         acl:\n  - id: ring\n    key: {KEY}\n    action: [query, update]\n\
         policy:\n  - id: ring\n    algorithm: ecdsap256sha256\n    nsec3: on\n\
         zone:\n  - domain: {zone}\n    storage: \"{here}/zones\"\n    file: zone\n    acl: ring\n    dnssec-signing: on\n    dnssec-policy: ring\n"
    )
}
