//! Who gets in under load, and who does not.

use rand::SeedableRng as _;

use super::*;

fn udp(host: [u8; 4], port: u16) -> Address {
    Address::Udp((host, port).into())
}

fn rng() -> rand::rngs::StdRng {
    rand::rngs::StdRng::from_seed([7; 32])
}

/// A gate that is under load at `now`.
fn flooded(now: Instant, rng: &mut rand::rngs::StdRng) -> Gate {
    let mut gate = Gate::default();
    for port in 0..STRANGER_BURST {
        let path = udp([192, 0, 2, 1], u16::try_from(port).unwrap());
        assert_eq!(gate.judge(now, &path, &NO_COOKIE, rng), Verdict::Read);
    }
    gate
}

fn cookie_for(
    gate: &mut Gate,
    now: Instant,
    path: &Address,
    rng: &mut rand::rngs::StdRng,
) -> Cookie {
    match gate.judge(now, path, &NO_COOKIE, rng) {
        Verdict::Cookie(cookie) => cookie,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cookie_is_bound_to_its_address() {
    let (now, mut rng) = (Instant::now(), rng());
    let mut gate = flooded(now, &mut rng);
    let own = udp([198, 51, 100, 1], 7000);
    let cookie = cookie_for(&mut gate, now, &own, &mut rng);
    for other in [udp([198, 51, 100, 1], 7001), udp([198, 51, 100, 2], 7000)] {
        let verdict = gate.judge(now, &other, &cookie, &mut rng);
        assert!(
            matches!(verdict, Verdict::Cookie(_)),
            "{other}: {verdict:?}"
        );
    }
    for bit in 0..8 * COOKIE {
        let mut changed = cookie;
        changed[bit / 8] ^= 1 << (bit % 8);
        let verdict = gate.judge(now, &own, &changed, &mut rng);
        assert!(matches!(verdict, Verdict::Cookie(_)), "bit {bit}");
    }
    assert_eq!(gate.judge(now, &own, &cookie, &mut rng), Verdict::Read);
}

#[test]
fn a_cookie_grows_old() {
    let own = udp([198, 51, 100, 1], 7000);
    for (age, good) in [
        (COOKIE_SECRET_TIME - Duration::from_secs(1), true),
        (COOKIE_SECRET_TIME + Duration::from_secs(1), true),
        (COOKIE_SECRET_TIME * 2 + Duration::from_secs(1), false),
    ] {
        let (mut now, mut rng) = (Instant::now(), rng());
        let mut gate = flooded(now, &mut rng);
        let cookie = cookie_for(&mut gate, now, &own, &mut rng);
        let end = now + age;
        // The flood goes on, so that every secret is used.
        while now < end {
            now += Duration::from_secs(10).min(end - now);
            for port in 0..=STRANGER_BURST {
                let path = udp([192, 0, 2, 1], u16::try_from(port).unwrap());
                gate.judge(now, &path, &NO_COOKIE, &mut rng);
            }
        }
        let verdict = gate.judge(now, &own, &cookie, &mut rng);
        assert_eq!(verdict == Verdict::Read, good, "{age:?}: {verdict:?}");
    }
}

#[test]
fn after_the_flood_no_cookie_is_needed() {
    let (now, mut rng) = (Instant::now(), rng());
    let mut gate = flooded(now, &mut rng);
    let own = udp([198, 51, 100, 1], 7000);
    cookie_for(&mut gate, now, &own, &mut rng);
    let later = now + Duration::from_secs(1);
    assert_eq!(gate.judge(later, &own, &NO_COOKIE, &mut rng), Verdict::Read);
}

#[test]
fn connections_need_no_cookie_but_are_limited() {
    let parent = ringway_transport::MemberId::new([9; 32]);
    let relayed = |last: u8| {
        let member = ringway_transport::MemberId::new([last; 32]);
        Address::Relay(ringway_transport::RelayAddress { parent, member })
    };
    let tcp = |port: u8| Address::Tcp(([198, 51, 100, 1], u16::from(port)).into());
    let v6 = |last: u8| {
        let host = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, last.into(), 0, 0, 1);
        Address::Quic((host, 7000).into())
    };
    let mail = |last: u8| {
        format!("smtp://m{last}@example.org?X-Ringway=k3")
            .parse()
            .unwrap()
    };
    let sources: [&dyn Fn(u8) -> Address; 4] = [&relayed, &tcp, &v6, &mail];
    for source in sources {
        let (now, mut rng) = (Instant::now(), rng());
        let mut gate = flooded(now, &mut rng);
        let verdicts = (0..50).map(|last| gate.judge(now, &source(last), &NO_COOKIE, &mut rng));
        let verdicts: Vec<Verdict> = verdicts.collect();
        let read = verdicts.iter().filter(|v| **v == Verdict::Read).count();
        assert_eq!(
            read,
            usize::try_from(SOURCE_BURST).unwrap(),
            "{}",
            source(1)
        );
        assert!(verdicts.iter().all(|v| !matches!(v, Verdict::Cookie(_))));
    }
}

#[test]
fn proved_sources_take_bounded_work_and_room() {
    let (now, mut rng) = (Instant::now(), rng());
    let mut gate = flooded(now, &mut rng);
    let mut read = 0;
    for number in 0..5_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let path = Address::Tcp(([10, a, b, c], 7000).into());
        read += u32::from(gate.judge(now, &path, &NO_COOKIE, &mut rng) == Verdict::Read);
        assert!(gate.sources.len() <= HANDSHAKE_SOURCES);
    }
    assert_eq!(read, PROVED_BURST);
}
