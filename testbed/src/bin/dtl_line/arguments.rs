//! The command line: the part of rattan's `link` that the benchmark uses.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::Failure;

/// Shown when the arguments are others.
const USAGE: &str = "usage: dtl-line link --{uplink,downlink}-bandwidth NUMBERkbps --{uplink,downlink}-delay NUMBERus \
                     --{uplink,downlink}-queue droptail|codel --{uplink,downlink}-queue-args JSON -- COMMAND...";

/// Fastest line, bits per second: packet times are whole nanoseconds, so a faster one would be
/// visibly off its rate.
const FASTEST: u64 = 10_000_000_000;

/// All that is said on the command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The way from the command to the namespace in which this program starts.
    pub(crate) up: Line,
    /// The way to the command.
    pub(crate) down: Line,
    /// The program behind the line.
    pub(crate) program: OsString,
    /// What it is given.
    pub(crate) given: Vec<OsString>,
}

/// One way of the line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Bits per second of network-layer bytes, at least 1.
    pub(crate) rate: u64,
    /// From the end of a packet's transmission to its arrival.
    pub(crate) delay: Duration,
    /// How packets wait, and which are dropped.
    pub(crate) queue: QueueKind,
}

/// The queue of one way.
#[derive(Clone, Debug)]
pub(crate) enum QueueKind {
    /// Who comes when it is full is dropped.
    DropTail(Limits),
    /// RFC 8289.
    CoDel(CoDelArguments),
}

/// What a queue holds at most; a packet under transmission does not count.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// Packets.
    pub(crate) packet_limit: Option<usize>,
    /// Bytes of the network layer.
    pub(crate) byte_limit: Option<usize>,
}

/// Names and values as rattan has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CoDelArguments {
    /// RFC 8289 §4.3: the time in which a queue has to become short.
    #[serde(deserialize_with = "duration")]
    pub(crate) interval: Duration,
    /// RFC 8289 §4.3: the delay that a standing queue may have.
    #[serde(deserialize_with = "duration")]
    pub(crate) target: Duration,
    /// RFC 8289 §4.4: no packet is dropped from a queue of at most so many bytes.
    pub(crate) mtu: usize,
    /// Packets that wait at most.
    pub(crate) packet_limit: Option<usize>,
    /// Bytes that wait at most.
    pub(crate) byte_limit: Option<usize>,
}

/// RFC 8289 §4.3 and §4.4, and no limit, as in rattan.
impl Default for CoDelArguments {
    fn default() -> CoDelArguments {
        CoDelArguments {
            interval: Duration::from_millis(100),
            target: Duration::from_millis(5),
            mtu: 1500,
            packet_limit: None,
            byte_limit: None,
        }
    }
}

impl Arguments {
    /// Reads the arguments after the program's name.
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Arguments, Failure> {
        let mut arguments =
            arguments.map(|argument| (argument.to_str().map(str::to_owned), argument));
        let mut next = || arguments.next();
        if next().and_then(|(text, _)| text).as_deref() != Some("link") {
            return Err(Failure::Usage(USAGE.to_owned()));
        }
        let (mut up, mut down) = (Given::default(), Given::default());
        loop {
            let Some((Some(option), _)) = next() else {
                return Err(Failure::Usage(USAGE.to_owned()));
            };
            if option == "--" {
                break;
            }
            let Some((Some(value), _)) = next() else {
                return Err(Failure::Usage(format!("{option}: no value")));
            };
            let way = option
                .strip_prefix("--")
                .and_then(|name| name.split_once('-'));
            match way {
                Some(("uplink", name)) => up.set(name, value)?,
                Some(("downlink", name)) => down.set(name, value)?,
                _ => return Err(Failure::Usage(format!("{option}: unknown; {USAGE}"))),
            }
        }
        let Some((_, program)) = next() else {
            return Err(Failure::Usage("no command after --".to_owned()));
        };
        Ok(Arguments {
            up: up.line("uplink")?,
            down: down.line("downlink")?,
            program,
            given: arguments.map(|(_, argument)| argument).collect(),
        })
    }
}

/// The options of one way, as they come.
#[derive(Debug, Default)]
struct Given {
    bandwidth: Option<String>,
    delay: Option<String>,
    queue: Option<String>,
    queue_args: Option<String>,
}

impl Given {
    fn set(&mut self, name: &str, value: String) -> Result<(), Failure> {
        let place = match name {
            "bandwidth" => &mut self.bandwidth,
            "delay" => &mut self.delay,
            "queue" => &mut self.queue,
            "queue-args" => &mut self.queue_args,
            _ => return Err(Failure::Usage(format!("-{name}: unknown; {USAGE}"))),
        };
        *place = Some(value);
        Ok(())
    }

    fn line(self, way: &str) -> Result<Line, Failure> {
        let wrong = |option: &str| {
            Failure::Usage(format!(
                "--{way}-{option}: missing or not understood; {USAGE}"
            ))
        };
        let rate = self.bandwidth.as_deref().and_then(parse_rate);
        let delay = self.delay.as_deref().and_then(parse_duration);
        let arguments = self.queue_args.as_deref().unwrap_or("{}");
        let bad = |error: serde_json::Error| Failure::Usage(format!("--{way}-queue-args: {error}"));
        let queue = match self.queue.as_deref() {
            Some("droptail") => QueueKind::DropTail(serde_json::from_str(arguments).map_err(bad)?),
            Some("codel") => QueueKind::CoDel(serde_json::from_str(arguments).map_err(bad)?),
            _ => return Err(wrong("queue")),
        };
        Ok(Line {
            rate: rate.ok_or_else(|| wrong("bandwidth"))?,
            delay: delay.ok_or_else(|| wrong("delay"))?,
            queue,
        })
    }
}

fn parse_rate(text: &str) -> Option<u64> {
    let rate = text
        .strip_suffix("kbps")?
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000)?;
    (1..=FASTEST).contains(&rate).then_some(rate)
}

fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.find(|character: char| !character.is_ascii_digit())?;
    let number = text[..unit].parse().ok()?;
    match &text[unit..] {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text)
        .ok_or_else(|| de::Error::custom(format!("{text:?} is no duration such as 100ms")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "link --uplink-bandwidth 10000kbps --uplink-delay 10000us --uplink-queue codel --uplink-queue-args \
                        {\"interval\":\"100ms\",\"target\":\"5ms\",\"mtu\":1500,\"packet_limit\":1000} \
                        --downlink-bandwidth 500kbps --downlink-delay 30ms --downlink-queue droptail \
                        --downlink-queue-args {\"byte_limit\":25000} -- sh -c true";

    fn parse(line: &str) -> Result<Arguments, Failure> {
        Arguments::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn what_the_benchmark_gives_is_understood() {
        let arguments = parse(GOOD).unwrap();
        assert_eq!(
            (arguments.up.rate, arguments.down.rate),
            (10_000_000, 500_000)
        );
        assert_eq!(arguments.up.delay, Duration::from_millis(10));
        assert_eq!(arguments.down.delay, Duration::from_millis(30));
        let QueueKind::CoDel(codel) = arguments.up.queue else {
            panic!("not CoDel");
        };
        assert_eq!(
            (codel.interval.as_millis(), codel.target.as_millis()),
            (100, 5)
        );
        assert_eq!((codel.mtu, codel.packet_limit), (1500, Some(1000)));
        let QueueKind::DropTail(limits) = arguments.down.queue else {
            panic!("not drop-tail");
        };
        assert_eq!(
            (limits.byte_limit, limits.packet_limit),
            (Some(25_000), None)
        );
        assert_eq!(arguments.program, "sh");
        assert_eq!(arguments.given, ["-c", "true"]);
    }

    #[test]
    fn other_arguments_are_refused() {
        for (from, to) in [
            ("link", "run"),
            ("10000kbps", "10000"),
            ("500kbps", "0kbps"),
            ("10000us", "10000"),
            ("droptail", "red"),
            ("byte_limit", "bytes"),
            ("100ms", "100"),
            ("--uplink-queue ", "--uplink-line "),
            ("--downlink-delay 30ms ", ""),
            ("-- sh -c true", "--"),
            (" -- sh -c true", ""),
        ] {
            let line = GOOD.replacen(from, to, 1);
            assert!(matches!(parse(&line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
