//! A Postfix of our own: in a folder, on loopback, ended with its value. Nothing of it touches a
//! Postfix that may run on the machine.

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
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
";

/// Where distributions put the command.
const PROGRAMS: [&str; 3] = [
    "/usr/sbin/postfix",
    "/usr/local/sbin/postfix",
    "/usr/lib/postfix/sbin/postfix",
];

/// The domain of all mailboxes (RFC 6761: no host has it).
pub const MAIL_DOMAIN: &str = "ring.test";

/// How a mailbox gets its mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// By LMTP to this port on loopback.
    Lmtp(u16),
    /// Into this Maildir, which is made and belongs to us.
    Maildir(PathBuf),
    /// By procmail, with this file of rules, as an unprivileged user: procmail refuses to be root.
    Procmail(PathBuf),
}

/// A mailbox, and where its mail goes.
struct Route {
    name: String,
    /// What `transport_maps` says.
    to: String,
    /// What `virtual_mailbox_maps` says.
    mailbox: String,
    /// A service of its own, as a line of `master.cf`; may be empty.
    service: String,
}

impl Route {
    fn local(name: &str, delivery: &Delivery) -> Route {
        let mut route = Route {
            name: name.to_owned(),
            to: String::new(),
            mailbox: "x".to_owned(),
            service: String::new(),
        };
        match delivery {
            Delivery::Lmtp(port) => route.to = format!("lmtp:inet:127.0.0.1:{port}"),
            Delivery::Maildir(folder) => {
                let inside = folder.strip_prefix("/").unwrap_or(folder);
                "virtual:".clone_into(&mut route.to);
                // The slash makes it a Maildir.
                route.mailbox = format!("{}/", inside.display());
            }
            Delivery::Procmail(rules) => {
                let rules = rules.display();
                route.to = format!("procmail-{name}:");
                route.service = format!(
                    "procmail-{name} unix - n n - - pipe flags=FR user=nobody argv=procmail -m {rules}\n"
                );
            }
        }
        route
    }
}

/// A mail server that takes mail on loopback and delivers that of its mailboxes `NAME@ring.test`.
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
        let route = |(name, port): &(&str, u16)| Route::local(name, &Delivery::Lmtp(*port));
        let routes: Vec<_> = mailboxes.iter().map(route).collect();
        Postfix::build("mail", &routes, doors, None, settings)
    }

    /// One that takes mail at one port and delivers that of each mailbox as it says. None as for
    /// [`Self::start`].
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_delivering(
        mailboxes: &[(&str, Delivery)],
    ) -> Result<Option<Postfix>, TestbedError> {
        let routes = mailboxes.iter();
        let routes: Vec<_> = routes
            .map(|(name, delivery)| Route::local(name, delivery))
            .collect();
        Postfix::build("mail", &routes, &[""], None, |_| String::new())
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
        let elsewhere = |(name, host): &(&str, IpAddr)| Route {
            name: name.to_string(),
            to: format!("smtp:[{host}]:25"),
            mailbox: "x".to_owned(),
            service: String::new(),
        };
        let mut routes = vec![Route::local(mailbox.0, &Delivery::Lmtp(mailbox.1))];
        routes.extend(others.iter().map(elsewhere));
        // Named after its mailbox: a server that is greeted with its own name takes it for a loop
        // and bounces the mail.
        Postfix::build(mailbox.0, &routes, &[""], Some(outside), |_| String::new())
    }

    /// `name` is that of the host within `ring.test`; a route is a mailbox and where its mail goes.
    fn build(
        name: &str,
        routes: &[Route],
        doors: &[&str],
        outside: Option<SocketAddr>,
        settings: impl FnOnce(&Path) -> String,
    ) -> Result<Option<Postfix>, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("setting up Postfix", error);
        let mut programs = PROGRAMS.iter().map(Path::new);
        let program = programs.find(|program| program.is_file());
        let Some(program) = program.filter(|_| rustix::process::geteuid().is_root()) else {
            return Ok(None);
        };
        let folder = tempfile::tempdir().map_err(wrong)?;
        // Its daemons run as users of their own.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(wrong)?;
        for part in ["etc", "spool", "data"] {
            fs::create_dir(folder.path().join(part)).map_err(wrong)?;
        }
        let (user, _) = account("postfix")?;
        let owner = Some(rustix::fs::Uid::from_raw(user));
        rustix::fs::chown(folder.path().join("data"), owner, None)
            .map_err(|error| TestbedError::of("giving Postfix its folder", error))?;
        let mut ports = Vec::new();
        let mut master = SERVICES.to_owned();
        master.extend(routes.iter().map(|route| route.service.as_str()));
        for door in doors {
            let port = free_port()?;
            master.push_str(&format!("127.0.0.1:{port} inet n - n - - smtpd {door}\n"));
            ports.push(port);
        }
        if let Some(outside) = outside {
            master.push_str(&format!("{outside} inet n - n - - smtpd\n"));
        }
        let main = main_cf(folder.path(), name, routes)? + &settings(folder.path());
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
            // Where a mail stayed is nowhere else to be seen. Without a stderr it is not reported.
            writeln!(std::io::stderr(), "{}", self.log()).ok();
        }
        self.control("abort");
    }
}

/// The numbers of a user and its group.
fn account(name: &str) -> Result<(u32, u32), TestbedError> {
    let users = fs::read_to_string("/etc/passwd")
        .map_err(|error| TestbedError::of("reading /etc/passwd", error))?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let numbers: Vec<u32> = fields.skip(1).take(2).flat_map(str::parse).collect();
        match &numbers[..] {
            [user, group] if is_it => Some((*user, *group)),
            _ => None,
        }
    });
    found.ok_or_else(|| TestbedError(format!("there is no user `{name}`")))
}

fn main_cf(folder: &Path, name: &str, routes: &[Route]) -> Result<String, TestbedError> {
    let here = folder.display();
    let table = |entry: &dyn Fn(&Route) -> String| {
        let entries: Vec<String> = routes.iter().map(entry).collect();
        entries.join(", ")
    };
    let transports = table(&|route| format!("{{ {}@ring.test = {} }}", route.name, route.to));
    let names = table(&|route| format!("{{ {}@ring.test = {} }}", route.name, route.mailbox));
    let (user, group) = account("nobody")?;
    // The servers are given by their addresses, and where they run no resolver may answer for
    // names.
    Ok(format!(
        "compatibility_level = 3.6\nqueue_directory = {here}/spool\ndata_directory = {here}/data\n\
         mail_owner = postfix\nsetgid_group = postdrop\nmaillog_file = {here}/log\n\
         maillog_file_prefixes = {here}\nmyhostname = {name}.ring.test\nmydestination =\n\
         virtual_mailbox_domains = ring.test\ninet_interfaces = 127.0.0.1\n\
         inet_protocols = ipv4\nsmtputf8_enable = no\nmynetworks = 127.0.0.0/8\n\
         smtp_dns_support_level = disabled\nsmtpd_peername_lookup = no\n\
         transport_maps = inline:{{ {transports} }}\nvirtual_mailbox_maps = inline:{{ {names} }}\n\
         virtual_mailbox_base = /\nvirtual_uid_maps = static:{user}\nvirtual_gid_maps = static:{group}\n\
         virtual_minimum_uid = 1\nalias_maps =\nalias_database =\nlocal_recipient_maps =\n"
    ))
}
