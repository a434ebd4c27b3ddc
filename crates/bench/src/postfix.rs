//! A Postfix of our own to measure mail by: in a folder, on loopback, ended with its value. Nothing
//! of it touches a Postfix that may run on the machine.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where distributions put the command.
const PROGRAMS: [&str; 3] = [
    "/usr/sbin/postfix",
    "/usr/local/sbin/postfix",
    "/usr/lib/postfix/sbin/postfix",
];

/// The domain of its mailboxes (RFC 6761: nobody has it).
pub(crate) const DOMAIN: &str = "ring.test";

/// Its services besides the port at which it takes mail.
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
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
";

/// How a mailbox gets its mail.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    dead_code,
    reason = "tests and an example of the transport crate include this file, too"
)]
pub(crate) enum Delivery {
    /// By LMTP to this port on loopback.
    Lmtp(u16),
    /// Into this Maildir, which is made and belongs to us.
    Maildir(PathBuf),
    /// By procmail, with this file of rules, as the user `nobody`: procmail refuses to be root.
    Procmail(PathBuf),
}

/// A mail server that takes mail at [`Self::port`] from loopback.
#[derive(Debug)]
pub(crate) struct Postfix {
    program: PathBuf,
    folder: Folder,
    /// The port at which it takes mail.
    pub(crate) port: u16,
}

impl Postfix {
    /// One that delivers the mail of each mailbox, `NAME@ring.test`, as it says.
    ///
    /// # Errors
    /// In words, when there is no Postfix, we are not root, or it does not start.
    pub(crate) fn start(mailboxes: &[(&str, Delivery)]) -> Result<Self, String> {
        let programs = PROGRAMS.iter().map(Path::new);
        let program = programs.into_iter().find(|program| program.is_file());
        let program = program.ok_or("there is no Postfix: install the package `postfix`")?;
        let own = fs::metadata("/proc/self").map_err(in_words)?;
        if own.uid() != 0 {
            return Err("Postfix needs root: run this as root".to_owned());
        }
        let (user, _) = account("postfix")?;
        let folder = Folder::new().map_err(in_words)?;
        for part in ["etc", "spool", "data"] {
            fs::create_dir(folder.0.join(part)).map_err(in_words)?;
        }
        std::os::unix::fs::chown(folder.0.join("data"), Some(user), None).map_err(in_words)?;
        let port = free_port().map_err(in_words)?;
        let (main, master) = configuration(&folder.0, port, mailboxes)?;
        fs::write(folder.0.join("etc/main.cf"), main).map_err(in_words)?;
        fs::write(folder.0.join("etc/master.cf"), master).map_err(in_words)?;
        // Dropped from here on, it ends what has started.
        let postfix = Self {
            program: program.to_owned(),
            folder,
            port,
        };
        if !postfix.control("start") {
            return Err(format!("Postfix does not start: {}", postfix.log()));
        }
        Ok(postfix)
    }

    /// What it has logged.
    #[must_use]
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.0.join("log")).unwrap_or_default()
    }

    fn control(&self, command: &str) -> bool {
        let mut process = Command::new(&self.program);
        process
            .arg("-c")
            .arg(self.folder.0.join("etc"))
            .arg(command);
        process.stdin(Stdio::null()).stdout(Stdio::null());
        let status = process.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        self.control("abort");
    }
}

/// A folder that is removed with its value. Postfix's daemons, which are other users, may enter it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let mut number = 0_u32;
        loop {
            let name = format!("ringway-postfix-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::DirBuilder::new().mode(0o755).create(&path) {
                Ok(()) => {
                    let folder = Self(path);
                    // Whatever the umask took away.
                    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755))?;
                    return Ok(folder);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind is in the folder for temporary files.
        fs::remove_dir_all(&self.0).ok();
    }
}

fn in_words(error: io::Error) -> String {
    format!("setting up Postfix: {error}")
}

/// The numbers of a user and its group.
fn account(name: &str) -> Result<(u32, u32), String> {
    let users = fs::read_to_string("/etc/passwd").map_err(in_words)?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let numbers: Vec<u32> = fields.skip(1).take(2).flat_map(str::parse).collect();
        match (is_it, &numbers[..]) {
            (true, [user, group]) => Some((*user, *group)),
            _ => None,
        }
    });
    found.ok_or_else(|| format!("there is no user `{name}`"))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// What goes into `main.cf` and `master.cf`.
fn configuration(
    folder: &Path,
    port: u16,
    mailboxes: &[(&str, Delivery)],
) -> Result<(String, String), String> {
    let mut master = format!("{SERVICES}127.0.0.1:{port} inet n - n - - smtpd\n");
    let (mut routes, mut names) = (Vec::new(), Vec::new());
    for (number, (name, delivery)) in mailboxes.iter().enumerate() {
        let mailbox = format!("{name}@{DOMAIN}");
        let (route, place) = match delivery {
            Delivery::Lmtp(port) => (format!("lmtp:inet:127.0.0.1:{port}"), "x".to_owned()),
            Delivery::Maildir(folder) => {
                // The slash makes it a Maildir.
                let inside = folder.strip_prefix("/").unwrap_or(folder);
                ("virtual:".to_owned(), format!("{}/", inside.display()))
            }
            Delivery::Procmail(rules) => {
                let rules = rules.display();
                master.push_str(&format!(
                    "procmail{number} unix - n n - - pipe flags=FR user=nobody argv=procmail -m {rules}\n"
                ));
                (format!("procmail{number}:"), "x".to_owned())
            }
        };
        routes.push(format!("{{ {mailbox} = {route} }}"));
        names.push(format!("{{ {mailbox} = {place} }}"));
    }
    let here = folder.display();
    let (routes, names) = (routes.join(", "), names.join(", "));
    let (user, group) = account("nobody")?;
    let main = format!(
        "compatibility_level = 3.6\nqueue_directory = {here}/spool\ndata_directory = {here}/data\n\
         mail_owner = postfix\nsetgid_group = postdrop\nmaillog_file = {here}/log\n\
         maillog_file_prefixes = {here}\nmyhostname = mail.{DOMAIN}\nmydestination =\n\
         virtual_mailbox_domains = {DOMAIN}\ninet_interfaces = 127.0.0.1\n\
         inet_protocols = ipv4\nsmtputf8_enable = no\nmynetworks = 127.0.0.0/8\n\
         transport_maps = inline:{{ {routes} }}\nvirtual_mailbox_maps = inline:{{ {names} }}\n\
         virtual_mailbox_base = /\nvirtual_uid_maps = static:{user}\nvirtual_gid_maps = static:{group}\n\
         virtual_minimum_uid = 1\nalias_maps =\nalias_database =\nlocal_recipient_maps =\n"
    );
    Ok((main, master))
}
