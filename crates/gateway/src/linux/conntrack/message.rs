//! Messages of connection tracking, as `linux/netfilter/nfnetlink_conntrack.h` gives them. Nothing
//! here does I/O.
//!
//! No crate gives counters: `netlink-packet-netfilter` 0.4 has connections without them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[cfg(any(test, feature = "fuzzing"))]
use super::super::netlink::HEADER;
use super::super::netlink::{Attributes, DONE, DUMP, Messages, Outgoing, REQUEST, WITH_ANSWER};
use crate::accounting::{Ends, KernelFlow};
use crate::flow::Count;
use crate::reader::Reader;

/// The subsystem of connection tracking among netfilter's.
const CONNTRACK: u16 = 1 << 8;
const NEW: u16 = CONNTRACK;
const GET: u16 = CONNTRACK | 1;
const DELETE: u16 = CONNTRACK | 2;

const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const PROTOCOL_INFO: u16 = 4;
const MARK: u16 = 8;
const COUNTERS_ORIGINAL: u16 = 9;
const COUNTERS_REPLY: u16 = 10;
const ID: u16 = 12;
const ZONE: u16 = 18;
const TIMESTAMP: u16 = 20;
const MARK_MASK: u16 = 21;

/// Within a tuple, and within its addresses and its protocol.
const TUPLE_IP: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const V4_SOURCE: u16 = 1;
const V4_DESTINATION: u16 = 2;
const V6_SOURCE: u16 = 3;
const V6_DESTINATION: u16 = 4;
const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

const PACKETS: u16 = 1;
const BYTES: u16 = 2;
const BEGAN: u16 = 1;
const ENDED: u16 = 2;
const TCP: u16 = 1;
const TCP_STATE: u16 = 1;
/// TCP_CONNTRACK_TIME_WAIT and TCP_CONNTRACK_CLOSE of `nf_conntrack_tcp.h`.
const TIME_WAIT: u8 = 7;
const CLOSED: u8 = 8;

/// AF_UNSPEC, AF_INET and AF_INET6.
const ANY: u8 = 0;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// What the kernel says of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// It is there: an event's, without counts, or the answer to a look.
    There(KernelFlow),
    /// It is there no more.
    Gone(KernelFlow),
    /// The look is over.
    Done,
    /// The answer to a request: the number of the error.
    Failed(i32),
    /// Nothing that we know.
    Other,
}

/// The messages of one read. `now` is when a connection ended whose end has no time.
pub(super) fn messages(bytes: &[u8], now: Duration) -> impl Iterator<Item = Incoming> {
    Messages::new(bytes).map(move |message| {
        if let Some(code) = message.answer() {
            return Incoming::Failed(code);
        }
        let flow = || connection(message.body);
        match message.kind {
            NEW => flow().map_or(Incoming::Other, Incoming::There),
            DELETE => flow().map_or(Incoming::Other, |flow| {
                Incoming::Gone(KernelFlow {
                    ended: Some(flow.ended.unwrap_or(now)),
                    ..flow
                })
            }),
            DONE => Incoming::Done,
            _ => Incoming::Other,
        }
    })
}

/// One direction of a connection.
#[derive(Clone, Copy)]
struct Tuple {
    protocol: u8,
    source: SocketAddr,
    destination: SocketAddr,
}

fn connection(body: &[u8]) -> Option<KernelFlow> {
    let (mut original, mut reply) = (None, None);
    let (mut to_server, mut to_client) = (None, None);
    let (mut id, mut mark, mut zone) = (0, 0, 0);
    let (mut began, mut ended, mut state) = (None, None, 0);
    // Four bytes say the family and the version.
    for (kind, value) in Attributes::new(body.get(4..)?) {
        match kind {
            TUPLE_ORIGINAL => original = tuple(value),
            TUPLE_REPLY => reply = tuple(value),
            COUNTERS_ORIGINAL => to_server = count(value),
            COUNTERS_REPLY => to_client = count(value),
            ID => id = Reader::new(value).be32()?,
            MARK => mark = Reader::new(value).be32()?,
            ZONE => zone = Reader::new(value).be16()?,
            TIMESTAMP => {
                began = nanoseconds(value, BEGAN);
                ended = nanoseconds(value, ENDED);
            }
            PROTOCOL_INFO => {
                let tcp = inner(value, TCP).and_then(|tcp| inner(tcp, TCP_STATE));
                state = tcp.and_then(|state| state.first().copied()).unwrap_or(0);
            }
            _ => {}
        }
    }
    let (original, reply) = (original?, reply?);
    Some(KernelFlow {
        id,
        // At the border packets have these: destination NAT is done before it, source NAT after.
        ends: Ends {
            protocol: original.protocol,
            client: original.source,
            server: reply.source,
        },
        called: original.destination,
        answered_at: reply.destination,
        zone,
        mark,
        counts: to_server
            .zip(to_client)
            .map(|(server, client)| [server, client]),
        began,
        ended,
        is_closed: matches!(state, TIME_WAIT | CLOSED),
    })
}

/// The attribute of this number within another.
fn inner(value: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut attributes = Attributes::new(value);
    attributes.find_map(|(kind, value)| (kind == wanted).then_some(value))
}

fn nanoseconds(value: &[u8], wanted: u16) -> Option<Duration> {
    let number = Reader::new(inner(value, wanted)?).be64()?;
    // A connection that lives has no end yet.
    (number > 0).then(|| Duration::from_nanos(number))
}

fn count(value: &[u8]) -> Option<Count> {
    Some(Count {
        packets: Reader::new(inner(value, PACKETS)?).be64()?,
        bytes: Reader::new(inner(value, BYTES)?).be64()?,
    })
}

fn tuple(value: &[u8]) -> Option<Tuple> {
    let (mut source, mut destination) = (None, None);
    for (kind, value) in Attributes::new(inner(value, TUPLE_IP)?) {
        match kind {
            V4_SOURCE => source = Some(IpAddr::from(*value.first_chunk::<4>()?)),
            V4_DESTINATION => destination = Some(IpAddr::from(*value.first_chunk::<4>()?)),
            V6_SOURCE => source = Some(IpAddr::from(*value.first_chunk::<16>()?)),
            V6_DESTINATION => destination = Some(IpAddr::from(*value.first_chunk::<16>()?)),
            _ => {}
        }
    }
    let protocol = inner(value, TUPLE_PROTOCOL)?;
    let port = |wanted| inner(protocol, wanted).and_then(|port| Reader::new(port).be16());
    Some(Tuple {
        protocol: inner(protocol, PROTOCOL_NUMBER)?.first().copied()?,
        source: SocketAddr::new(source?, port(SOURCE_PORT).unwrap_or(0)),
        destination: SocketAddr::new(destination?, port(DESTINATION_PORT).unwrap_or(0)),
    })
}

/// Asks for all connections.
pub(super) fn ask_all(out: &mut Outgoing) {
    out.begin(GET, REQUEST | DUMP, &[ANY, 0, 0, 0]);
    out.end();
}

/// Asks for one connection.
pub(super) fn ask(out: &mut Outgoing, flow: &KernelFlow) {
    begin(out, GET, REQUEST, flow);
    out.end();
}

/// Sets the bits of `mask` of a connection's mark to those of `mark`. A connection that is there no
/// more is not made.
pub(super) fn set_mark(out: &mut Outgoing, flow: &KernelFlow, mark: u32, mask: u32) {
    begin(out, NEW, REQUEST | WITH_ANSWER, flow);
    out.attribute(MARK, &mark.to_be_bytes());
    out.attribute(MARK_MASK, &mask.to_be_bytes());
    out.end();
}

/// Begins a message about one connection, by what its client called.
fn begin(out: &mut Outgoing, kind: u16, flags: u16, flow: &KernelFlow) {
    let Ends {
        protocol, client, ..
    } = flow.ends;
    let family = if client.is_ipv4() { IPV4 } else { IPV6 };
    out.begin(kind, flags, &[family, 0, 0, 0]);
    out.nest(TUPLE_ORIGINAL, |out| {
        out.nest(TUPLE_IP, |out| {
            for (address, v4, v6) in [
                (client.ip(), V4_SOURCE, V6_SOURCE),
                (flow.called.ip(), V4_DESTINATION, V6_DESTINATION),
            ] {
                match address {
                    IpAddr::V4(address) => out.attribute(v4, &address.octets()),
                    IpAddr::V6(address) => out.attribute(v6, &address.octets()),
                }
            }
        });
        out.nest(TUPLE_PROTOCOL, |out| {
            out.attribute(PROTOCOL_NUMBER, &[protocol]);
            out.attribute(SOURCE_PORT, &client.port().to_be_bytes());
            out.attribute(DESTINATION_PORT, &flow.called.port().to_be_bytes());
        });
    });
    if flow.zone != 0 {
        out.attribute(ZONE, &flow.zone.to_be_bytes());
    }
}

/// Reads anything, and asks about each connection in it.
///
/// # Panics
/// When a question names another connection, or there are more messages than bytes for them.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_anything(bytes: &[u8]) {
    let mut count = 0_usize;
    for incoming in messages(bytes, Duration::from_secs(1)) {
        count = count.saturating_add(1);
        let flow = match incoming {
            Incoming::There(flow) => flow,
            Incoming::Gone(flow) => {
                assert!(flow.ended.is_some());
                flow
            }
            Incoming::Done | Incoming::Failed(_) | Incoming::Other => continue,
        };
        let mut out = Outgoing::default();
        ask(&mut out, &flow);
        let asked = Messages::new(out.bytes()).next();
        let body = asked.and_then(|asked| asked.body.get(4..));
        let asked = inner(body.unwrap_or_default(), TUPLE_ORIGINAL).and_then(tuple);
        let asked = asked.map(|asked| (asked.protocol, asked.source, asked.destination));
        let Ends {
            protocol, client, ..
        } = flow.ends;
        assert_eq!(asked, Some((protocol, client, flow.called)));
    }
    assert!(count <= bytes.len().div_ceil(HEADER));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::{
        BEGAN, BYTES, COUNTERS_ORIGINAL, COUNTERS_REPLY, DELETE, DESTINATION_PORT, ENDED, ID,
        Incoming, MARK, NEW, PACKETS, PROTOCOL_INFO, PROTOCOL_NUMBER, SOURCE_PORT, TCP, TCP_STATE,
        TIMESTAMP, TUPLE_IP, TUPLE_ORIGINAL, TUPLE_PROTOCOL, TUPLE_REPLY, V4_DESTINATION,
        V4_SOURCE, messages, read_anything,
    };
    use crate::linux::netlink::Outgoing;

    const NOW: Duration = Duration::from_secs(77);

    fn tuple(out: &mut Outgoing, kind: u16, from: ([u8; 4], u16), to: ([u8; 4], u16)) {
        out.nest(kind, |out| {
            out.nest(TUPLE_IP, |out| {
                out.attribute(V4_SOURCE, &from.0);
                out.attribute(V4_DESTINATION, &to.0);
            });
            out.nest(TUPLE_PROTOCOL, |out| {
                out.attribute(PROTOCOL_NUMBER, &[6]);
                out.attribute(SOURCE_PORT, &from.1.to_be_bytes());
                out.attribute(DESTINATION_PORT, &to.1.to_be_bytes());
            });
        });
    }

    /// A connection behind source and destination NAT, as the kernel writes it.
    fn written(kind: u16, state: u8) -> Vec<u8> {
        let mut out = Outgoing::default();
        out.begin(kind, 0, &[2, 0, 0, 0]);
        let (host, public) = ([10, 0, 0, 2], [198, 51, 100, 1]);
        let (called, server) = ([203, 0, 113, 5], [192, 0, 2, 7]);
        tuple(&mut out, TUPLE_ORIGINAL, (host, 50_000), (called, 80));
        tuple(&mut out, TUPLE_REPLY, (server, 8_080), (public, 61_000));
        out.attribute(MARK, &0x0100_0000_u32.to_be_bytes());
        out.attribute(ID, &99_u32.to_be_bytes());
        for (kind, packets) in [(COUNTERS_ORIGINAL, 3_u64), (COUNTERS_REPLY, 4)] {
            out.nest(kind, |out| {
                out.attribute(PACKETS, &packets.to_be_bytes());
                out.attribute(BYTES, &packets.saturating_mul(100).to_be_bytes());
            });
        }
        out.nest(PROTOCOL_INFO, |out| {
            out.nest(TCP, |out| out.attribute(TCP_STATE, &[state]));
        });
        out.nest(TIMESTAMP, |out| {
            out.attribute(BEGAN, &5_000_000_000_u64.to_be_bytes());
            out.attribute(ENDED, &0_u64.to_be_bytes());
        });
        out.end();
        out.bytes().to_vec()
    }

    #[test]
    fn connections_stand_as_the_border_sees_them() {
        let bytes = [written(NEW, 3), written(DELETE, 7)].concat();
        let read: Vec<Incoming> = messages(&bytes, NOW).collect();
        let [Incoming::There(there), Incoming::Gone(gone)] = read.as_slice() else {
            panic!("{read:?}");
        };
        assert_eq!(there.ends.client.to_string(), "10.0.0.2:50000");
        assert_eq!(there.ends.server.to_string(), "192.0.2.7:8080");
        assert_eq!(there.called.to_string(), "203.0.113.5:80");
        assert_eq!(there.answered_at.to_string(), "198.51.100.1:61000");
        assert_eq!((there.id, there.mark), (99, 0x0100_0000));
        let counted = there
            .counts
            .unwrap()
            .map(|count| (count.packets, count.bytes));
        assert_eq!(counted, [(3, 300), (4, 400)]);
        assert_eq!(
            (there.began, there.ended),
            (Some(Duration::from_secs(5)), None)
        );
        assert!(!there.is_closed && gone.is_closed);
        assert_eq!(gone.ended, Some(NOW));
    }

    /// Reads of a kernel's (6.18): four TCP connections, one of them translated, one in a zone, one
    /// over IPv6, a datagram and an echo, the events of their beginnings and ends, and answers.
    fn recorded(name: &str) -> Vec<u8> {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/gateway_conntrack");
        fs::read(folder.join(name)).unwrap()
    }

    #[test]
    fn recorded_look_has_every_connection_with_counts() {
        let read: Vec<Incoming> = messages(&recorded("look-0"), NOW).collect();
        let flows = read.iter().map(|incoming| match incoming {
            Incoming::There(flow) => *flow,
            other => panic!("{other:?}"),
        });
        let flows: Vec<_> = flows.collect();
        assert!(
            flows
                .iter()
                .all(|flow| flow.counts.is_some() && flow.began.is_some())
        );
        let of = |called: &str| {
            let found = flows.iter().find(|flow| flow.called.to_string() == called);
            found.unwrap_or_else(|| panic!("{called}: {flows:?}"))
        };
        // Destination NAT: the server is another than the called one.
        assert_eq!(
            of("127.0.0.9:7002").ends.server.to_string(),
            "127.0.0.1:7001"
        );
        assert_eq!(of("127.0.0.1:7001").mark, 0x0100_0000);
        assert!(flows.iter().any(|flow| flow.zone == 5));
        assert_eq!(of("[::1]:7004").ends.protocol, 6);
        let [to_server, _] = of("[::1]:7004").counts.unwrap();
        assert!(
            to_server.bytes > 1_000 && to_server.packets >= 3,
            "{to_server:?}"
        );
        assert_eq!(
            messages(&recorded("look-1"), NOW).collect::<Vec<_>>(),
            [Incoming::Done]
        );
    }

    #[test]
    fn recorded_ends_and_answers_are_read() {
        let all = |name: &str| messages(&recorded(name), NOW).collect::<Vec<_>>();
        for name in ["event-5", "event-6", "event-7", "event-8"] {
            let [Incoming::Gone(flow)] = all(name)[..] else {
                panic!("{name}: {:?}", all(name));
            };
            assert!(flow.counts.is_some() && flow.ended > flow.began, "{flow:?}");
        }
        assert_eq!(all("unknown"), [Incoming::Failed(2)]);
        assert_eq!(all("done"), [Incoming::Failed(0)]);
    }

    #[test]
    fn questions_name_the_connection_that_was_read() {
        let names = [
            "look-0", "event-0", "event-3", "event-5", "event-7", "unknown",
        ];
        for whole in names.map(recorded) {
            for end in 0..whole.len() {
                read_anything(&whole[..end]);
                let mut broken = whole.clone();
                broken[end] ^= 0x55;
                read_anything(&broken);
            }
        }
    }

    #[test]
    fn broken_messages_are_skipped() {
        let whole = written(NEW, 3);
        for end in 0..whole.len() {
            assert!(messages(&whole[..end], NOW).count() <= 1);
            for value in [0, 1, 3, 0xff] {
                let mut broken = whole.clone();
                broken[end] = value;
                for _any in messages(&broken, NOW).take(100) {}
            }
        }
    }
}
