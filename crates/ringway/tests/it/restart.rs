//! A router that starts again while another one is off: back in the ring, and what its log says.

use std::time::Duration;

use ringway_testbed::{Member, RingBuilder, TestbedError, wait_until};

use super::program;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

const ROUTERS: [&str; 7] = ["oslo", "lima", "quito", "accra", "dakar", "seoul", "turin"];

/// Messages of the overlay until a router is in the ring: fewer than that.
const MOST: u64 = 200;

const TRIES: usize = 3;

/// A number that the log gives where it says that this router is part of the ring, after so many
/// bytes.
fn said(member: &Member, after: usize, field: &str) -> Result<u64, TestbedError> {
    let log = member.log_text().split_off(after);
    let line = log.lines().rfind(|line| line.contains("part of the ring"));
    let value = line.and_then(|line| line.split(&format!("{field}=")).nth(1));
    let digits =
        |value: &str| -> String { value.chars().take_while(char::is_ascii_digit).collect() };
    let number = value.and_then(|value| digits(value).parse().ok());
    number.ok_or(TestbedError(log))
}

/// Another router is off meanwhile.
#[test]
fn router_returns_with_few_messages() {
    let builder = RingBuilder::new(program());
    let builder = ROUTERS.iter().fold(builder, |b, name| b.router(name));
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    for turn in 0..TRIES {
        let off = ROUTERS[turn % 7];
        let back = ROUTERS[(turn + 1 + turn / 7 % 6) % 7];
        ring.member_mut(off).unwrap().kill().unwrap();
        // Half of them before the others notice that one is gone.
        std::thread::sleep(Duration::from_secs(u64::from(turn % 2 == 0) * 5));
        let member = ring.member_mut(back).unwrap();
        member.kill().unwrap();
        let before = member.log_text().len();
        member.start().unwrap();
        let messages = wait_until(DEADLINE, || said(member, before, "messages")).unwrap();
        let log = member.log_text().split_off(before);
        assert!(messages < MOST, "{messages}: {log}");
        // Who takes longer says why, once a second.
        let lines = log.matches("not in the ring yet: ").count();
        let took = said(member, before, "milliseconds").unwrap();
        assert!(lines > 0 || took < 2_500, "{log}");
        ring.member_mut(off).unwrap().start().unwrap();
        ring.wait_until_settled().unwrap();
    }
}
