//! What the kernel's TCP has sent at the sending end of a line, and sent again.

use std::io;

use super::flow::joined;
use super::line::{End, Line};
use super::watch::Packets;

/// Segments so far. The namespace of a line has no other TCP than that of the run.
pub(super) fn sent(line: &Line) -> io::Result<Packets> {
    let table = line.at(End::Sender, || {
        std::fs::read_to_string("/proc/thread-self/net/snmp")
    })?;
    let table = joined(table)??;
    of(&table).ok_or_else(|| io::Error::other("the kernel does not tell what its TCP has sent"))
}

/// From a table in which each protocol has a line of names and one of values.
fn of(table: &str) -> Option<Packets> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted| {
        let place = names.split(' ').position(|name| name == wanted)?;
        values.split(' ').nth(place)?.parse().ok()
    };
    Some(Packets {
        sent: value("OutSegs")?,
        lost: value("RetransSegs")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_are_read_by_column_name() {
        let table = "Icmp: InMsgs OutMsgs\nIcmp: 1 2\nTcp: MaxConn InSegs OutSegs RetransSegs InErrs\nTcp: -1 700 900 9 0\nUdp: InDatagrams\nUdp: 5\n";
        let packets = of(table).unwrap();
        assert_eq!((packets.sent, packets.lost), (900, 9));
        assert!(of("Tcp: OutSegs\nTcp: 5\n").is_none());
        assert!(of("Tcp: OutSegs RetransSegs\n").is_none());
        assert!(of("").is_none());
    }
}
