//! A Postfix of the test's own: in a folder, on loopback, ended with the test.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{TestbedError, free_port};

/// Its services besides the doors at which it takes mail.
const SERVICES: &str = "\
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
lmtp unix - - n - - lmtp
smtp unix - - n - - smtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
";

/// A mail server that delivers each of its mailboxes `NAME@ring.test` to an LMTP port on loopback.
#[derive(Debug)]
pub struct Postfix {
    program: PathBuf,
    folder: TempDir,
    /// The ports at which it takes mail, one for each door.
    pub ports: Vec<u16>,
}

impl Postfix {
    /// One that takes mail at `doors`: each is what stands behind `smtpd` in `master.cf`, and may
    /// be empty. `settings` writes what it wants into the server's folder and gives further
    /// lines for `main.cf`. None if there is no Postfix, or we are not root.
    ///
    /// # Errors
    /// When its folder cannot be made or it does not start.
    pub fn start(
        mailboxes: &[(&str, u16)],
        doors: &[&str],
        settings: impl FnOnce(&Path) -> String,
    ) -> Result<Option<Postfix>, TestbedError> {
        let routes: Vec<_> = mailboxes.iter().map(delivered).collect();
        Postfix::build("mail", &routes, (doors, None), settings)
    }

    /// The one of a host of its own: it takes mail on loopback and at the host's port 25, delivers
    /// the host's mailbox, and takes mail for the mailboxes of `others` to port 25 of theirs.
    /// Call it within the host ([`crate::Host::enter`]). None as for [`Self::start`].
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_at(
        host: IpAddr,
        mailbox: (&str, u16),
        others: &[(&str, IpAddr)],
    ) -> Result<Option<Postfix>, TestbedError> {
        let outside = SocketAddr::from((host, 25));
        let elsewhere =
            |(name, host): &(&str, IpAddr)| (name.to_string(), format!("smtp:[{host}]:25"));
        let mut routes = vec![delivered(&mailbox)];
        routes.extend(others.iter().map(elsewhere));
        // Named after its mailbox: a server that is greeted with its own name takes it for a loop
        // and bounces the mail.
        Postfix::build(mailbox.0, &routes, (&[""], Some(outside)), |_| {
            String::new()
        })
    }

    /// `name` is that of the host within `ring.test`; a route is a mailbox and where its mail goes.
    fn build(
        name: &str,
        routes: &[(String, String)],
        (doors, outside): (&[&str], Option<SocketAddr>),
        settings: impl FnOnce(&Path) -> String,
    ) -> Result<Option<Postfix>, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("setting up Postfix", error);
        let program = Path::new("/usr/sbin/postfix");
        if !program.is_file() || !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let folder = tempfile::tempdir().map_err(wrong)?;
        // Its daemons run as users of their own.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(wrong)?;
        for part in ["etc", "spool", "data"] {
            fs::create_dir(folder.path().join(part)).map_err(wrong)?;
        }
        let users = fs::read_to_string("/etc/passwd").map_err(wrong)?;
        let user = users
            .lines()
            .find_map(|line| {
                line.strip_prefix("postfix:x:")?
                    .split(':')
                    .next()?
                    .parse()
                    .ok()
            })
            .ok_or_else(|| TestbedError("there is no user `postfix`".to_owned()))?;
        let owner = Some(rustix::fs::Uid::from_raw(user));
        rustix::fs::chown(folder.path().join("data"), owner, None)
            .map_err(|error| TestbedError::of("giving Postfix its folder", error))?;
        let mut ports = Vec::new();
        let mut master = SERVICES.to_owned();
        for door in doors {
            let port = free_port()?;
            master.push_str(&format!("127.0.0.1:{port} inet n - n - - smtpd {door}\n"));
            ports.push(port);
        }
        if let Some(outside) = outside {
            master.push_str(&format!("{outside} inet n - n - - smtpd\n"));
        }
        let main = main_cf(folder.path(), name, routes) + &settings(folder.path());
        let etc = folder.path().join("etc");
        fs::write(etc.join("main.cf"), main).map_err(wrong)?;
        fs::write(etc.join("master.cf"), master).map_err(wrong)?;
        let postfix = Postfix {
            program: program.to_owned(),
            folder,
            ports,
        };
        match postfix.control("start") {
            true => Ok(Some(postfix)),
            false => Err(TestbedError(format!(
                "Postfix does not start: {}",
                postfix.log()
            ))),
        }
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn control(&self, command: &str) -> bool {
        let mut process = Command::new(&self.program);
        process.arg("-c").arg(self.folder.path().join("etc"));
        process
            .arg(command)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        process.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Where a mail stayed is nowhere else to be seen. Without a stderr there is nobody to
            // tell.
            writeln!(std::io::stderr(), "{}", self.log()).ok();
        }
        self.control("abort");
    }
}

/// The route of a mailbox on this machine.
fn delivered((name, port): &(&str, u16)) -> (String, String) {
    (name.to_string(), format!("lmtp:inet:127.0.0.1:{port}"))
}

fn main_cf(folder: &Path, name: &str, routes: &[(String, String)]) -> String {
    let here = folder.display();
    let table = |entry: &dyn Fn(&(String, String)) -> String| {
        let entries: Vec<String> = routes.iter().map(entry).collect();
        entries.join(", ")
    };
    let transports = table(&|(mailbox, to)| format!("{{ {mailbox}@ring.test = {to} }}"));
    let names = table(&|(mailbox, _)| format!("{{ {mailbox}@ring.test = x }}"));
    // The servers are given by their addresses, and where they run nobody may answer for names.
    format!(
        "compatibility_level = 3.6\nqueue_directory = {here}/spool\ndata_directory = {here}/data\n\
         mail_owner = postfix\nsetgid_group = postdrop\nmaillog_file = {here}/log\n\
         maillog_file_prefixes = {here}\nmyhostname = {name}.ring.test\nmydestination =\n\
         virtual_mailbox_domains = ring.test\ninet_interfaces = 127.0.0.1\n\
         inet_protocols = ipv4\nsmtputf8_enable = no\nmynetworks = 127.0.0.0/8\n\
         smtp_dns_support_level = disabled\nsmtpd_peername_lookup = no\n\
         transport_maps = inline:{{ {transports} }}\nvirtual_mailbox_maps = inline:{{ {names} }}\n\
         alias_maps =\nalias_database =\nlocal_recipient_maps =\n"
    )
}
