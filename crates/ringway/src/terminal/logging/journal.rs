//! Whether stderr is systemd's journal, which has a time for each line and reads its priority from
//! the first bytes (sd-daemon(3)).

use std::os::fd::AsFd;
use std::sync::OnceLock;

use tracing::Level;

/// Whether this process' stderr is the journal.
pub(crate) fn is_stderr() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let named = std::env::var("JOURNAL_STREAM");
        named.is_ok_and(|named| is(&named, &std::io::stderr()))
    })
}

/// `JOURNAL_STREAM` is `DEVICE:INODE` of the stream that the journal reads. Another program may
/// have given stderr away after it was set.
fn is(named: &str, stream: &impl AsFd) -> bool {
    let Ok(stat) = rustix::fs::fstat(stream) else {
        return false;
    };
    named == format!("{}:{}", stat.st_dev, stat.st_ino)
}

/// What a line of this level begins with: syslog(3) has the numbers.
pub(crate) fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_of_the_journal_is_its_inode() {
        let file = tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let named = format!("{}:{}", stat.st_dev, stat.st_ino);
        assert!(is(&named, &file));
        assert!(!is("", &file) && !is("1:1", &file) && !is(&named, &std::io::stdin()));
    }
}
