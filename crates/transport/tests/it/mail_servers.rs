//! The mail transport with real mail servers: Postfix, Dovecot and procmail, in folders of their
//! own.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use ringway_transport::{
    Address, ImapSource, MailLogin, MailRelay, MailServer, MailSource, MailTls, Pop3Source,
    SmtpOptions, Transport,
};

use crate::smtp::{conversation, fifo, lmtp, mail, mailbox, member, server, start};
use crate::support::{Child, installed, next, skipped, soon, until};
use ringway_testbed::{Postfix, free_port};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A folder that the servers' own users may enter.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn chown(path: &Path, user: u32) {
    let (user, group) = (
        rustix::fs::Uid::from_raw(user),
        rustix::fs::Gid::from_raw(user),
    );
    rustix::fs::chown(path, Some(user), Some(group)).unwrap();
}

/// Makes `cert.pem` and `key.pem` for `localhost`.
fn certificate(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

/// A Postfix that takes all at its first port, STARTTLS and a password at the second, TLS and a
/// password at the third; it asks `sasl` for passwords.
fn postfix(mailboxes: &[(&str, u16)], sasl: &Path) -> Option<Postfix> {
    let secure = "-o smtpd_sasl_auth_enable=yes -o smtpd_tls_auth_only=yes \
         -o smtpd_recipient_restrictions=permit_sasl_authenticated,reject";
    let wrapped = format!("{secure} -o smtpd_tls_wrappermode=yes");
    let settings = |folder: &Path| {
        certificate(folder);
        let (here, sasl) = (folder.display(), sasl.display());
        format!(
            "smtpd_tls_cert_file = {here}/cert.pem\nsmtpd_tls_key_file = {here}/key.pem\n\
             smtpd_tls_security_level = may\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = {sasl}\n"
        )
    };
    Postfix::start(mailboxes, &["", secure, &wrapped], settings).unwrap()
}

#[tokio::test]
async fn two_members_talk_through_postfix() {
    let (port_a, port_b) = (free_port().unwrap(), free_port().unwrap());
    let mailboxes = [("oslo", port_a), ("rome", port_b)];
    let Some(postfix) = postfix(&mailboxes, Path::new("none")) else {
        return skipped("two_members_talk_through_postfix", "Postfix and root");
    };
    let mut a = start(member("oslo", Some(postfix.ports[0]), lmtp(port_a)));
    let mut b = start(member("rome", Some(postfix.ports[0]), lmtp(port_b)));
    let talked = tokio::time::timeout(Duration::from_secs(60), conversation(&mut a, &mut b));
    assert!(talked.await.is_ok(), "{}", postfix.log());
    // The relay saw null senders: nothing bounces.
    let log = postfix.log();
    assert!(
        log.contains("from=<>") && log.contains("status=sent"),
        "{log}"
    );
    assert!(!log.contains("status=bounced"), "{log}");
}

/// A Dovecot in a folder, with one mailbox of user `rome`, password `secret-word`.
struct Dovecot {
    _child: Child,
    folder: tempfile::TempDir,
    imap: u16,
    imaps: u16,
    pop3: u16,
    pop3s: u16,
}

fn speaks_pop3() -> bool {
    Path::new("/usr/lib/dovecot/pop3").exists()
}

fn pop3_service(pop3: u16, pop3s: u16) -> String {
    format!(
        "service pop3-login {{\n chroot =\n inet_listener pop3 {{\n port = {pop3}\n }}\n\
         inet_listener pop3s {{\n port = {pop3s}\n ssl = yes\n }}\n}}\n"
    )
}

/// Whom the mails belong to: Dovecot refuses root.
const USER: u32 = 65_534;

impl Dovecot {
    fn start() -> Option<Self> {
        let program = installed("dovecot").filter(|_| is_root())?;
        let folder = open_folder();
        let [imap, imaps, pop3, pop3s] = std::array::from_fn(|_| free_port().unwrap());
        let (protocols, pop3_service) = match speaks_pop3() {
            true => ("imap pop3", pop3_service(pop3, pop3s)),
            false => ("imap", String::new()),
        };
        let here = folder.path().display();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(
            folder.path().join("key.pem"),
            made.signing_key.serialize_pem(),
        )
        .unwrap();
        for part in [
            "home",
            "home/mail",
            "home/mail/new",
            "home/mail/cur",
            "home/mail/tmp",
        ] {
            fs::create_dir(folder.path().join(part)).unwrap();
            chown(&folder.path().join(part), USER);
        }
        let config = format!(
            "base_dir = {here}/run\nstate_dir = {here}/state\nlog_path = {here}/log\nprotocols = {protocols}\nlisten = 127.0.0.1\n\
             ssl = yes\nssl_cert = <{here}/cert.pem\nssl_key = <{here}/key.pem\n\
             disable_plaintext_auth = no\nfirst_valid_uid = {USER}\nfirst_valid_gid = {USER}\n\
             mail_location = maildir:{here}/home/mail\n\
             passdb {{\n driver = static\n args = password=secret-word\n}}\n\
             userdb {{\n driver = static\n args = uid={USER} gid={USER} home={here}/home\n}}\n\
             service auth {{\n unix_listener {here}/auth {{\n mode = 0666\n }}\n}}\n\
             service imap-login {{\n chroot =\n inet_listener imap {{\n port = {imap}\n }}\n\
             inet_listener imaps {{\n port = {imaps}\n ssl = yes\n }}\n}}\n{pop3_service}"
        );
        let path = folder.path().join("dovecot.conf");
        fs::write(&path, config).unwrap();
        let mut command = Command::new(program);
        command.arg("-F").arg("-c").arg(path).stderr(Stdio::null());
        Some(Self {
            _child: Child::start(&mut command),
            folder,
            imap,
            imaps,
            pop3,
            pop3s,
        })
    }

    /// Delivers a mail as a mail server would.
    fn deliver(&self, name: &str, mail: &[u8]) {
        let folder = self.folder.path().join("home/mail");
        let hidden = folder.join("tmp").join(name);
        fs::write(&hidden, mail).unwrap();
        chown(&hidden, USER);
        fs::rename(hidden, folder.join("new").join(name)).unwrap();
    }

    /// The mails that are there.
    fn names(&self) -> Vec<String> {
        let folder = self.folder.path().join("home/mail");
        let listed = ["new", "cur"].map(|part| folder.join(part).read_dir().unwrap());
        let entries = listed.into_iter().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Where it is, and who fetches from it.
    fn access(&self, port: u16, tls: MailTls) -> (MailServer, MailLogin) {
        let password_file = self.folder.path().join("password");
        fs::write(&password_file, "secret-word\n").unwrap();
        set_mode(&password_file, 0o600);
        let server = MailServer {
            host: "localhost".to_owned(),
            tls,
            extra_roots: Some(self.folder.path().join("cert.pem")),
            ..server(port)
        };
        let login = MailLogin {
            user: "rome".to_owned(),
            password_file,
        };
        (server, login)
    }

    fn imap(&self, port: u16, tls: MailTls) -> SmtpOptions {
        let (server, login) = self.access(port, tls);
        let folder = "INBOX".to_owned();
        let source = ImapSource {
            server,
            login,
            folder,
        };
        member("rome", None, vec![MailSource::Imap(source)])
    }

    fn pop3(&self, port: u16, tls: MailTls) -> SmtpOptions {
        let (server, login) = self.access(port, tls);
        let interval = Duration::from_secs(1);
        let source = Pop3Source {
            server,
            login,
            interval,
        };
        member("rome", None, vec![MailSource::Pop3(source)])
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// Mails that are there and mails that come are taken, and others are left alone.
async fn fetches(dovecot: &Dovecot, options: SmtpOptions, way: &str) {
    let put = |name: String, mail: &[u8]| dovecot.deliver(&name, mail);
    let before = format!("before {way}");
    put(
        format!("1.{way}.x"),
        mail(before.as_bytes()).await.as_bytes(),
    );
    put(
        format!("2.{way}.foreign"),
        b"Subject: lunch\r\n\r\nAt one?\r\n",
    );
    put(
        format!("3.{way}.spoofed"),
        b"X-Ringway: rome\r\n\r\n.fooled you\r\n",
    );
    let is_pop3 = matches!(options.sources[0], MailSource::Pop3(_));
    let (b, mut at_b) = start(options);
    let first = tokio::time::timeout(Duration::from_secs(60), at_b.recv()).await;
    let first = first.unwrap_or_else(|_| panic!("{way} {:?}\n{}", b.counters(), dovecot.log()));
    assert_eq!(&first.unwrap().message[..], before.as_bytes());
    until(|| b.counters().malformed >= 1).await;
    // Now it waits: a mail that comes is told to it at once, or found at the next look.
    tokio::time::sleep(Duration::from_millis(500)).await;
    put(
        format!("4.{way}.x"),
        mail(b"while it waits").await.as_bytes(),
    );
    assert_eq!(&next(&mut at_b).await.message[..], b"while it waits");
    // Ours are gone, others are there and unread.
    until(|| !dovecot.names().iter().any(|name| name.contains(".x"))).await;
    if is_pop3 {
        // The mailbox is looked at again meanwhile, and what is not ours stays.
        tokio::time::sleep(Duration::from_millis(2500)).await;
    }
    let names = dovecot.names();
    for left in ["foreign", "spoofed"] {
        let left = format!("{way}.{left}");
        assert!(names.iter().any(|name| name.contains(&left)), "{names:?}");
    }
    let seen = |name: &String| {
        name.rsplit_once(":2,")
            .is_some_and(|(_, f)| f.contains('S'))
    };
    // Over POP3 a client that reads a whole mail marks it as read: a spoofed one is.
    let unread = names
        .iter()
        .filter(|name| !is_pop3 || name.contains("foreign"));
    assert!(!unread.into_iter().any(seen), "{names:?}");
    // The IMAP server searches; of a POP3 server's mails each was looked at once, however often it
    // was asked.
    let (foreign, spoofed) = match is_pop3 {
        true => (names.len() / 2, names.len() / 2),
        false => (0, names.len() / 2),
    };
    let counters = b.counters();
    assert_eq!(
        (counters.failed, counters.duplicate),
        (0, 0),
        "{}",
        dovecot.log()
    );
    assert_eq!(
        (counters.foreign, counters.malformed),
        (foreign as u64, spoofed as u64),
        "{way}"
    );
}

/// A wrong password is an error that is counted, no more.
async fn wrong_password(dovecot: &Dovecot, options: SmtpOptions) {
    fs::write(dovecot.folder.path().join("password"), "wrong").unwrap();
    let (b, _at_b) = start(options);
    until(|| b.counters().failed >= 1).await;
}

#[tokio::test]
async fn mails_come_from_dovecot_as_they_arrive() {
    let Some(dovecot) = Dovecot::start() else {
        return skipped("mails_come_from_dovecot_as_they_arrive", "Dovecot and root");
    };
    until(|| TcpStream::connect(("127.0.0.1", dovecot.imap)).is_ok()).await;
    for (way, tls, port) in [
        ("plain", MailTls::Plain, dovecot.imap),
        ("starttls", MailTls::StartTls, dovecot.imap),
        ("tls", MailTls::Tls, dovecot.imaps),
    ] {
        fetches(&dovecot, dovecot.imap(port, tls), way).await;
    }
    wrong_password(&dovecot, dovecot.imap(dovecot.imap, MailTls::Plain)).await;
}

#[tokio::test]
async fn mails_are_fetched_from_dovecot_by_pop3() {
    let name = "mails_are_fetched_from_dovecot_by_pop3";
    let Some(dovecot) = Dovecot::start().filter(|_| speaks_pop3()) else {
        return skipped(name, "Dovecot with POP3 and root");
    };
    until(|| TcpStream::connect(("127.0.0.1", dovecot.pop3)).is_ok()).await;
    for (way, tls, port) in [
        ("plain", MailTls::Plain, dovecot.pop3),
        ("starttls", MailTls::StartTls, dovecot.pop3),
        ("tls", MailTls::Tls, dovecot.pop3s),
    ] {
        fetches(&dovecot, dovecot.pop3(port, tls), way).await;
    }
    wrong_password(&dovecot, dovecot.pop3(dovecot.pop3, MailTls::Plain)).await;
}

#[tokio::test]
async fn a_relay_may_want_tls_and_a_password() {
    let name = "a_relay_may_want_tls_and_a_password";
    let Some(dovecot) = Dovecot::start() else {
        return skipped(name, "Dovecot and root");
    };
    let port = free_port().unwrap();
    let sasl = dovecot.folder.path().join("auth");
    let Some(postfix) = postfix(&[("rome", port)], &sasl) else {
        return skipped(name, "Postfix and root");
    };
    until(|| TcpStream::connect(("127.0.0.1", dovecot.imap)).is_ok()).await;
    let (_b, mut at_b) = start(member("rome", None, lmtp(port)));
    let there = Address::Smtp(mailbox("rome"));
    let relay = |port, tls, roots: bool, password: &str| {
        let password_file = postfix.folder().join(password);
        fs::write(&password_file, password).unwrap();
        set_mode(&password_file, 0o600);
        let cert = postfix.folder().join("cert.pem");
        let relay = MailRelay {
            server: MailServer {
                host: "localhost".to_owned(),
                tls,
                extra_roots: roots.then_some(cert),
                ..server(port)
            },
            login: Some(MailLogin {
                user: "oslo".to_owned(),
                password_file,
            }),
        };
        SmtpOptions {
            relay: Some(relay),
            ..member("oslo", None, Vec::new())
        }
    };
    let (starttls, tls) = (postfix.ports[1], postfix.ports[2]);
    for (port, kind) in [(starttls, MailTls::StartTls), (tls, MailTls::Tls)] {
        let (a, _at_a) = start(relay(port, kind, true, "secret-word"));
        let said = format!("by {kind:?}");
        a.connect(&there)
            .await
            .unwrap()
            .send(said.as_bytes())
            .unwrap();
        let incoming = tokio::time::timeout(Duration::from_secs(20), at_b.recv()).await;
        let incoming = incoming.unwrap_or_else(|_| panic!("{}{}", postfix.log(), dovecot.log()));
        assert_eq!(&incoming.unwrap().message[..], said.as_bytes());
    }
    // A wrong password is refused for good, a wrong certificate may be mended: nothing is sent
    // there.
    let (a, _at_a) = start(relay(tls, MailTls::Tls, true, "wrong-word"));
    a.connect(&there).await.unwrap().send(b"x").unwrap();
    until(|| a.counters().failed == 1).await;
    let (a, _at_a) = start(relay(tls, MailTls::Tls, false, "secret-word"));
    a.connect(&there).await.unwrap().send(b"x").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(at_b.try_recv().is_err());
}

#[tokio::test]
async fn procmail_sorts_our_mails_into_the_pipe() {
    let Some(procmail) = installed("procmail") else {
        return skipped("procmail_sorts_our_mails_into_the_pipe", "procmail");
    };
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    if !fifo(&pipe) {
        return;
    }
    let (b, mut at_b) = start(member("rome", None, vec![MailSource::Pipe(pipe.clone())]));
    let (rules, inbox) = (folder.path().join("rules"), folder.path().join("inbox"));
    // The paper's figure 4.
    let text = format!(
        ":0:\n* ^X-Ringway: rome\n{}\n\n:0:\n{}\n",
        pipe.display(),
        inbox.display()
    );
    fs::write(&rules, text).unwrap();
    let mails = [
        mail(b"first").await.replace("\r\n", "\n"),
        "Subject: lunch\n\nAt one?\n".to_owned(),
        mail(b"second").await.replace("\r\n", "\n"),
    ];
    let sorted = tokio::task::spawn_blocking(move || {
        for mail in mails {
            let mut command = Command::new(&procmail);
            command.stderr(Stdio::null());
            let mut child = command
                .arg("-m")
                .arg(&rules)
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            child
                .stdin
                .take()
                .unwrap()
                .write_all(mail.as_bytes())
                .unwrap();
            assert!(child.wait().unwrap().success());
        }
    });
    soon(sorted).await.unwrap();
    for expected in ["first", "second"] {
        assert_eq!(&next(&mut at_b).await.message[..], expected.as_bytes());
    }
    assert!(fs::read_to_string(inbox).unwrap().contains("At one?"));
    assert_eq!((b.counters().foreign, b.counters().malformed), (0, 0));
}
