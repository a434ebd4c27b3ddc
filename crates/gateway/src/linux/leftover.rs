//! What iptables leaves in nftables when its last rule has gone: the table `mangle` and the chain
//! FORWARD, both empty. They do nothing, but a ruleset that was written down before looks changed.
//!
//! What is not there before the first rule of ours is noted in the folder of state, and goes at the
//! end. The kernel itself refuses to delete what is not empty (`NLM_F_NONREC`): a rule of another
//! program that has come meanwhile stays.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use super::netlink::{Messages, Outgoing, REQUEST, WITH_ANSWER};
use super::rules::HOOK;
use crate::limits::ABSENT_FILE;

/// The subsystem of nftables, and its messages (`linux/netfilter/nf_tables.h`).
const SUBSYSTEM: u8 = 10;
const OF_NFTABLES: u16 = 10 << 8;
/// `NFNL_MSG_BATCH_BEGIN` and its end.
const BEGIN: u16 = 16;
const END: u16 = 17;
/// `NLM_F_NONREC`: not with what is in it.
const ONLY_EMPTY: u16 = 0x100;

const TABLE: &[u8] = b"mangle\0";

/// A table or a chain of one version of IP. In the order in which they can be deleted.
const PARTS: [Part; 4] = [
    Part::chain("ip chain", 2),
    Part::chain("ip6 chain", 10),
    Part::table("ip table", 2),
    Part::table("ip6 table", 10),
];

#[derive(Clone, Copy, Debug)]
struct Part {
    /// What it is called in the file.
    name: &'static str,
    family: u8,
    /// The kernel's messages that show it, and that delete it.
    get: u16,
    delete: u16,
    is_chain: bool,
}

impl Part {
    const fn table(name: &'static str, family: u8) -> Part {
        Part {
            name,
            family,
            get: OF_NFTABLES | 1,
            delete: OF_NFTABLES | 2,
            is_chain: false,
        }
    }

    const fn chain(name: &'static str, family: u8) -> Part {
        Part {
            name,
            family,
            get: OF_NFTABLES | 4,
            delete: OF_NFTABLES | 5,
            is_chain: true,
        }
    }

    fn write(self, out: &mut Outgoing, kind: u16, flags: u16) {
        out.begin(kind, REQUEST | flags, &[self.family, 0, 0, 0]);
        // NFTA_TABLE_NAME, or NFTA_CHAIN_TABLE and NFTA_CHAIN_NAME.
        out.attribute(1, TABLE);
        if self.is_chain {
            out.attribute(3, &[HOOK.as_bytes(), b"\0"].concat());
        }
        out.end();
    }

    fn is_there(self) -> io::Result<bool> {
        let mut out = Outgoing::default();
        self.write(&mut out, self.get, WITH_ANSWER);
        Ok(ask(&out)? == 0)
    }

    /// Deletes it, if it is empty; that it is not, or not there, is no error.
    fn delete(self) -> io::Result<()> {
        let mut out = Outgoing::default();
        let whole = [0, 0, 0, SUBSYSTEM];
        out.begin(BEGIN, REQUEST, &whole);
        out.end();
        self.write(&mut out, self.delete, WITH_ANSWER | ONLY_EMPTY);
        out.begin(END, REQUEST, &whole);
        out.end();
        let error = ask(&out)?;
        tracing::debug!(part = self.name, error, "what iptables has left is deleted");
        Ok(())
    }
}

/// Asks the kernel; returns the number of the first error, 0 if there is none.
fn ask(out: &Outgoing) -> io::Result<i32> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    socket.set_non_blocking(true)?;
    socket.send(out.bytes(), 0)?;
    // The kernel has answered by the time that it has taken the message.
    let mut buffer = [0; 8_192];
    let mut found = 0;
    while let Ok(read) = socket.recv(&mut buffer.as_mut_slice(), 0) {
        for message in Messages::new(buffer.get(..read).unwrap_or_default()) {
            let error = message.answer().unwrap_or(0);
            found = if found == 0 { error } else { found };
        }
    }
    Ok(found)
}

/// Notes in the folder of state what is not there, unless an earlier run has.
///
/// # Errors
/// The system refuses.
pub fn note(state: &Path) -> io::Result<()> {
    let mut options = fs::File::options();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = match options.open(state.join(ABSENT_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    for part in PARTS {
        if !part.is_there()? {
            writeln!(file, "{}", part.name)?;
        }
    }
    Ok(())
}

/// Deletes what was not there before, as far as it is empty.
///
/// # Errors
/// The system refuses.
pub fn remove(state: &Path) -> io::Result<()> {
    let path = state.join(ABSENT_FILE);
    let absent = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        absent => absent?,
    };
    let noted = |part: &Part| absent.lines().any(|line| line == part.name);
    for part in PARTS.into_iter().filter(noted) {
        part.delete()?;
    }
    fs::remove_file(path)
}
