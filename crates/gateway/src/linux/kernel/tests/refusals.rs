//! The connection cache's programs: who is refused, who is not, and what is told of it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Map, MapData};
use aya::programs::{Program, TestRun as _, TestRunOptions};

use super::super::refused::{KernelCache, Refusals};
use super::super::{REFUSE, REFUSE_EARLY, REFUSE_NEW, load_program};
use super::{Folder, not_tested, packet_of};
use crate::limits::MAX_BLOCKED;
use crate::packet::L4;
use crate::verdict::{BlockedConnections, BlockedKey, Cached};

/// `TC_ACT_SHOT` and `TC_ACT_UNSPEC`, `XDP_DROP` and `XDP_PASS`, and what a rule takes for a match
/// and for none.
const ANSWERS: [(&str, u32, u32); 3] = [
    (REFUSE, 2, u32::MAX),
    (REFUSE_EARLY, 1, 2),
    (REFUSE_NEW, 1, 0),
];
const SYN: u8 = 0x02;
/// Any time since the Unix epoch.
pub(super) const NOW: Duration = Duration::from_secs(1_700_000_000);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

struct Border {
    ebpf: Ebpf,
    cache: KernelCache,
    refusals: Refusals,
    folder: Folder,
}

fn border(test: &str) -> Option<Border> {
    let folder = Folder::new(test);
    let loaded = || -> Result<_, Box<dyn std::error::Error>> {
        let mut ebpf = folder.load()?;
        for (name, ..) in ANSWERS {
            load_program(&mut ebpf, name)?;
        }
        let mut take = |name| ebpf.take_map(name).ok_or(name);
        let cache = KernelCache::new(take("blocked")?.try_into()?);
        let refusals = Refusals::new(take("refusals")?.try_into()?);
        Ok((ebpf, cache, refusals))
    };
    match loaded() {
        Ok((ebpf, cache, refusals)) => Some(Border {
            ebpf,
            cache,
            refusals,
            folder,
        }),
        Err(why) => not_tested(test, &why.to_string()),
    }
}

impl Border {
    /// Whether a program refuses a packet behind this Ethernet header; both answers are looked at.
    fn refuses(&self, name: &str, header: &[u8], packet: &[u8]) -> bool {
        let frame = [header, packet].concat();
        let options = TestRunOptions {
            data_in: Some(&frame),
            ..TestRunOptions::default()
        };
        let answer = match self.ebpf.program(name) {
            Some(Program::SchedClassifier(program)) => program.test_run(options),
            Some(Program::SocketFilter(program)) => program.test_run(options),
            Some(Program::Xdp(program)) => program.test_run(options),
            _ => panic!("{name}"),
        };
        let answer = answer.unwrap().return_value;
        let (_, refused, passed) = ANSWERS
            .into_iter()
            .find(|(known, ..)| *known == name)
            .unwrap();
        assert!([refused, passed].contains(&answer), "{name}: {answer}");
        answer == refused
    }

    /// The names of those that refuse a packet.
    fn refused_by(&self, packet: &[u8]) -> Vec<&'static str> {
        let header = ethernet(packet);
        let names = ANSWERS.into_iter().map(|(name, ..)| name);
        names
            .filter(|name| self.refuses(name, &header, packet))
            .collect()
    }
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 6 {
        [0x86, 0xdd]
    } else {
        [8, 0]
    };
    [[2; 12].as_slice(), &kind].concat()
}

/// The key of the conversation with this number ([`packet_of`]).
pub(super) fn key(number: usize, l4: L4) -> BlockedKey {
    let (client, server): (IpAddr, IpAddr) = match number % 2 {
        0 => ([10, 0, 0, 1].into(), [192, 0, 2, 2].into()),
        _ => (
            "2001:db8::a00:1".parse().unwrap(),
            "2001:db8::c000:202".parse().unwrap(),
        ),
    };
    BlockedKey {
        server: SocketAddr::new(server, [80, 53, 6_881][number % 3]),
        l4,
        client,
    }
}

pub(super) fn until(key: BlockedKey, until: Duration) -> Cached {
    Cached::Until(BlockedConnections {
        key,
        until,
        announced: false,
    })
}

/// A client that brings about blocked connections without end costs the older ones their slots,
/// and no other connection anything.
#[test]
fn the_latest_is_refused_however_many_there_were() {
    let Some(border) = border("refused-many") else {
        return;
    };
    let of_client = |n: u32| BlockedKey {
        client: IpAddr::V4((0x0b00_0000 + n).into()),
        ..key(0, L4::Tcp)
    };
    let many = u32::try_from(MAX_BLOCKED).unwrap() * 2;
    for n in 0..many {
        let blocked = until(of_client(n), NOW + MINUTE);
        assert_eq!(border.cache.apply(NOW, &blocked), [], "{n}");
    }
    let syn = packet_of((0, 0), Some((7, SYN, 0)), b"");
    assert!(border.refused_by(&syn).is_empty());
    let blocked = until(key(0, L4::Tcp), NOW + MINUTE);
    assert_eq!(border.cache.apply(NOW, &blocked), []);
    assert_eq!(border.refused_by(&syn), ANSWERS.map(|(name, ..)| name));
}

#[test]
fn only_matches_of_a_blocked_one_are_refused() {
    let Some(border) = border("refused") else {
        return;
    };
    let tcp = |which, flags| packet_of((which, 0), Some((7, flags, 0)), b"");
    let all = ANSWERS.map(|(name, ..)| name);
    // IPv4, IPv6, and IPv6 with an extension header.
    for which in [0, 1, 3] {
        assert!(border.refused_by(&tcp(which, SYN)).is_empty(), "{which}");
        let blocked = until(key(which, L4::Tcp), NOW + MINUTE);
        assert_eq!(border.cache.apply(NOW, &blocked), []);
        assert_eq!(border.refused_by(&tcp(which, SYN)), all, "{which}");
        // With the flags of congestion notification it is a key as well.
        assert_eq!(border.refused_by(&tcp(which, SYN | 0xc0)), all, "{which}");
        // What is under way, answers, and ends are none; neither is what goes the other way, or a
        // datagram.
        for flags in [0x12, 0x10, 0x18, 0x04, 0x11, 0] {
            let refused = border.refused_by(&tcp(which, flags));
            assert!(refused.is_empty(), "{which}, {flags:#x}: {refused:?}");
        }
        let back = packet_of((which, 1), Some((7, SYN, 0)), b"");
        assert!(border.refused_by(&back).is_empty(), "{which}");
        let datagram = packet_of((which, 0), None, b"hello");
        assert!(border.refused_by(&datagram).is_empty(), "{which}");
        // From any port of the client, to no other of the server.
        let mut other = tcp(which, SYN);
        let ports = other.len() - 20;
        other[ports + 1] ^= 1;
        assert_eq!(border.refused_by(&other), all, "{which}");
        other[ports + 3] ^= 1;
        assert!(border.refused_by(&other).is_empty(), "{which}");
        // A datagram by the packet filter alone, which knows that it begins something.
        border
            .cache
            .apply(NOW, &until(key(which, L4::Udp), NOW + MINUTE));
        assert_eq!(border.refused_by(&datagram), [REFUSE_NEW], "{which}");
    }
}

#[test]
fn options_of_the_internet_header_hide_no_call() {
    let Some(border) = border("options") else {
        return;
    };
    border
        .cache
        .apply(NOW, &until(key(0, L4::Tcp), NOW + MINUTE));
    let with_options = |flags| {
        let mut packet = packet_of((0, 0), Some((7, flags, 0)), b"");
        // One word of "no operation"; where the flags would stand without it are bits that are none
        // of a key's.
        packet.splice(20..20, [1; 4]);
        packet[0] = 0x46;
        packet[3] += 4;
        packet
    };
    assert_eq!(
        border.refused_by(&with_options(SYN)),
        ANSWERS.map(|(name, ..)| name)
    );
    let refused = border.refused_by(&with_options(0x10));
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn fragments_and_vlan_frames_are_not_refused() {
    let Some(border) = border("not-refused") else {
        return;
    };
    border
        .cache
        .apply(NOW, &until(key(0, L4::Tcp), NOW + MINUTE));
    let syn = packet_of((0, 0), Some((7, SYN, 0)), b"");
    let header = ethernet(&syn);
    for name in [REFUSE, REFUSE_EARLY] {
        assert!(border.refuses(name, &header, &syn));
        // A VLAN's, a provider's, and a session's of PPPoE.
        for tags in [
            [0x81, 0, 0, 10].as_slice(),
            &[0x88, 0xa8, 0, 10, 0x81, 0, 0, 20],
            &[0x88, 0x64, 0x11, 0, 0, 1, 0, 42],
        ] {
            let tagged = [&header[..12], tags, &header[12..]].concat();
            assert!(!border.refuses(name, &tagged, &syn), "{name}, {tags:x?}");
        }
    }
    // A first fragment and a later one.
    for which in [[0x20, 0], [0, 9]] {
        let mut fragment = syn.clone();
        fragment[6..8].copy_from_slice(&which);
        assert!(border.refused_by(&fragment).is_empty());
    }
    // What is missing up to the flags; the kernel tries nothing without a whole header of IP.
    for length in 20..34 {
        let cut = &syn[..length];
        assert!(border.refused_by(cut).is_empty(), "{length}");
    }
}

#[test]
fn refusals_are_counted_reported_and_expire() {
    let Some(mut border) = border("counted") else {
        return;
    };
    let syn = packet_of((0, 0), Some((7, SYN, 0)), b"");
    let (header, known) = (ethernet(&syn), key(0, L4::Tcp));
    border.cache.apply(NOW, &until(known, NOW + MINUTE));
    for _attempt in 0..5 {
        assert!(border.refuses(REFUSE, &header, &syn));
    }
    // The first one at once, and the others when they are asked for; what is renewed for longer
    // takes none away.
    let first = border.refusals.poll(NOW).unwrap();
    assert_eq!(
        (first.key, first.client_port, first.attempts),
        (known, 40_000, 1)
    );
    assert_eq!(border.refusals.poll(NOW), None);
    border.cache.apply(NOW, &until(known, NOW + 2 * MINUTE));
    assert!(border.refuses(REFUSE, &header, &syn));
    let rest = border.cache.apply(NOW, &Cached::Gone(known));
    let [rest] = rest[..] else { panic!("{rest:?}") };
    assert_eq!(
        (rest.key, rest.client_port, rest.attempts),
        (known, 40_000, 5)
    );
    assert!(!border.refuses(REFUSE, &header, &syn));
    assert_eq!(border.cache.apply(NOW, &Cached::Gone(known)), []);
    // Its time is over without anybody saying so.
    let soon = until(known, NOW + Duration::from_millis(200));
    border.cache.apply(NOW, &soon);
    let begun = std::time::Instant::now();
    while border.refuses(REFUSE, &header, &syn) {
        assert!(begun.elapsed() < MINUTE, "it is refused for ever");
    }
    assert!(begun.elapsed() >= Duration::from_millis(100));
}

#[test]
fn the_next_run_knows_what_is_refused() {
    let Some(border) = border("left") else {
        return;
    };
    let left = [
        (key(0, L4::Tcp), NOW + MINUTE, false),
        (key(1, L4::Udp), NOW + 2 * MINUTE, true),
        (key(3, L4::Tcp), NOW, true),
    ]
    .map(|(key, until, announced)| BlockedConnections {
        key,
        until,
        announced,
    });
    for blocked in left {
        border.cache.apply(NOW, &Cached::Until(blocked));
    }
    // Renewed, it is what it was last.
    let last = BlockedConnections {
        announced: false,
        ..left[1]
    };
    border.cache.apply(NOW, &Cached::Until(last));
    let again = Cached::Announced(last.key.l4, last.key.server);
    assert_eq!(border.cache.apply(NOW, &again), []);
    let known = border.cache.known(NOW);
    let known = known.iter().find(|known| known.key == last.key);
    assert_eq!(known.map(|known| known.announced), Some(false));
    border.cache.apply(NOW, &Cached::Until(left[1]));
    let known = border.cache.known(NOW);
    assert_eq!(known.len(), left.len(), "{known:?}");
    for blocked in left {
        let found = known.iter().find(|known| known.key == blocked.key);
        let found = found.unwrap();
        assert_eq!(found.announced, blocked.announced, "{found:?}");
        // The clock went on between the two.
        let late = blocked.until.abs_diff(found.until);
        assert!(late < Duration::from_secs(5), "{found:?}");
    }
    // One that is announced again ends, in whatever run it began; all others stay.
    let announced = |blocked: BlockedConnections| {
        let key = blocked.key;
        border
            .cache
            .apply(NOW, &Cached::Announced(key.l4, key.server));
        let known = border.cache.known(NOW);
        known.iter().map(|known| known.key).collect::<Vec<_>>()
    };
    assert!(announced(left[0]).contains(&left[0].key));
    let stay = announced(left[1]);
    assert!(!stay.contains(&left[1].key) && stay.len() == 2, "{stay:?}");
    // The next run: what it has renewed outlives what it has taken over.
    let pinned = MapData::from_pin(border.folder.0.join("blocked")).unwrap();
    let map = Map::LruHashMap(pinned);
    let after = KernelCache::new(map.try_into().unwrap());
    let calls = || after.known(NOW).len();
    after.apply(NOW, &Cached::Until(left[0]));
    after.apply(NOW, &Cached::Left(left[0].key));
    assert_eq!(calls(), 2);
    let announced = Cached::Announced(left[2].key.l4, left[2].key.server);
    after.apply(NOW, &announced);
    assert_eq!(calls(), 1);
    after.apply(NOW, &Cached::Gone(left[0].key));
    assert_eq!(calls(), 0);
    after.apply(NOW, &Cached::Until(left[2]));
    assert_eq!(calls(), 1);
}

#[test]
fn the_next_run_may_end_earlier_blocks() {
    let Some(border) = border("left-behind") else {
        return;
    };
    let known = key(0, L4::Tcp);
    border.cache.apply(NOW, &until(known, NOW + MINUTE));
    // Its own are no others'.
    border.cache.apply(NOW, &Cached::Left(known));
    assert_eq!(border.cache.known(NOW).len(), 1);
    let pinned = MapData::from_pin(border.folder.0.join("blocked")).unwrap();
    let after = KernelCache::new(Map::LruHashMap(pinned).try_into().unwrap());
    after.apply(NOW, &Cached::Left(known));
    assert_eq!(after.known(NOW), []);
}
