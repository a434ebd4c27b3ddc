//! The ways by which a real Postfix brings mail to us: LMTP, a Maildir, and procmail with a named
//! pipe.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Delivery, Postfix, free_port};
use ringway_transport::{Address, MailBudget, MailSource, SmtpOptions, Transport};

use crate::smtp::{fifo, mailbox, member, start};
use crate::support::{installed, next, skipped};

/// Whom Postfix delivers as.
const MAIL_USER: u32 = 65_534;

fn maildir(folder: &Path) -> (Delivery, MailSource) {
    let folder = folder.join("maildir");
    for part in ["", "new", "cur", "tmp"] {
        std::fs::create_dir(folder.join(part)).unwrap();
        chown(folder.join(part), Some(MAIL_USER), None).unwrap();
    }
    (
        Delivery::Maildir(folder.clone()),
        MailSource::Maildir(folder),
    )
}

/// As `docs/how-to/only-email-gets-through.md` says it.
fn procmail(folder: &Path) -> Option<(Delivery, MailSource)> {
    let (pipe, rules, lock) = (
        folder.join("pipe"),
        folder.join("rules"),
        folder.join("lock"),
    );
    if !fifo(&pipe) {
        return None;
    }
    let text = format!(
        "SHELL=/bin/sh\n:0 w\n* ^X-Ringway: rome\n| flock {} sh -c 'cat > {}'\n",
        lock.display(),
        pipe.display()
    );
    std::fs::write(&rules, text).unwrap();
    for path in [folder, &pipe, &rules] {
        chown(path, Some(MAIL_USER), None).unwrap();
    }
    Some((Delivery::Procmail(rules), MailSource::Pipe(pipe)))
}

/// Hands over many messages, of which each few share a mail, and waits for all of them.
async fn arrive(way: &str, delivery: Delivery, source: MailSource) {
    let postfix = Postfix::start_delivering(&[("rome", delivery)]);
    let postfix = postfix.unwrap().unwrap();
    let (rome, mut at_rome) = start(member("rome", None, vec![source]));
    let plenty = MailBudget {
        hourly: 1000,
        daily: 1000,
    };
    let (oslo, _at_oslo) = start(SmtpOptions {
        batch_time: Duration::ZERO,
        budget: plenty,
        mailbox_budget: plenty,
        ..member("oslo", Some(postfix.ports[0]), Vec::new())
    });
    let to = oslo.connect(&Address::Smtp(mailbox("rome"))).await.unwrap();
    let mut waited: BTreeSet<Vec<u8>> = BTreeSet::new();
    for number in 0..200_u8 {
        let message = vec![number; 50_000];
        to.send(&message).unwrap();
        waited.insert(message);
        // Some mails have one message, others many; some follow each other closely.
        if number % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(u64::from(number % 7))).await;
        }
    }
    while !waited.is_empty() {
        let arrived = tokio::time::timeout(Duration::from_secs(60), next(&mut at_rome)).await;
        let arrived = arrived.unwrap_or_else(|_| panic!("{way}: {}", postfix.log()));
        assert!(waited.remove(&arrived.message[..]), "{way}: it came twice");
    }
    let counters = rome.counters();
    assert_eq!((counters.malformed, counters.foreign), (0, 0), "{way}");
    assert_eq!((oslo.counters().failed, counters.failed), (0, 0), "{way}");
}

#[tokio::test]
async fn postfix_brings_mail_by_lmtp_maildir_and_procmail() {
    let name = "postfix_brings_mail_by_lmtp_maildir_and_procmail";
    if installed("postfix").is_none() || !rustix::process::geteuid().is_root() {
        return skipped(name, "Postfix and root");
    }
    let port = free_port().unwrap();
    let by_lmtp = MailSource::LmtpTcp(([127, 0, 0, 1], port).into());
    arrive("lmtp", Delivery::Lmtp(port), by_lmtp).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (delivery, source) = maildir(folder.path());
    arrive("maildir", delivery, source).await;
    if installed("procmail").is_none() || installed("flock").is_none() {
        return skipped(name, "procmail and flock for its last part");
    }
    if let Some((delivery, source)) = procmail(folder.path()) {
        arrive("procmail", delivery, source).await;
    }
}
