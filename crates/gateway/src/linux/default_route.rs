//! The interfaces by which this machine reaches the world: those of its default routes.

use std::collections::BTreeSet;

/// Where the kernel lists the routes of its main table, of IPv4 and of IPv6 (proc(5)).
const ROUTES: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
/// `RTF_UP` and `RTF_REJECT` of `linux/route.h`.
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

/// The names of those interfaces, of both versions of IP, each once and in alphabetical order.
/// Empty where there is no default route, or routes are in other tables than the main one.
#[must_use]
pub fn default_interfaces() -> Vec<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (v4, v6) = (read(ROUTES), read(ROUTES_V6));
    let found: BTreeSet<&str> = of_v4(&v4).chain(of_v6(&v6)).collect();
    found.into_iter().map(str::to_owned).collect()
}

/// A line: interface, destination, gateway, flags, three counts, mask and more.
fn of_v4(routes: &str) -> impl Iterator<Item = &str> {
    routes.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let default = words.get(1) == Some(&"00000000") && words.get(7) == Some(&"00000000");
        let usable = usable(words.get(3)?);
        words.first().copied().filter(|_| default && usable)
    })
}

/// A line: destination, length of its prefix, source and its length, next hop, metric, two counts,
/// flags, interface.
fn of_v6(routes: &str) -> impl Iterator<Item = &str> {
    routes.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let any = words.first()?.bytes().all(|byte| byte == b'0');
        let default = any && words.get(1) == Some(&"00");
        let usable = usable(words.get(8)?);
        let name = words.get(9).copied();
        name.filter(|name| default && usable && *name != "lo")
    })
}

fn usable(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & UP != 0 && flags & REJECT == 0)
}

#[cfg(test)]
mod tests {
    use super::{of_v4, of_v6};

    #[test]
    fn only_usable_default_routes_count() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n\
            ppp0\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\nshort\n";
        assert_eq!(of_v4(v4).collect::<Vec<_>>(), ["eth0"]);
        let zeros = "0".repeat(32);
        let line = |length: &str, flags: &str, name: &str| {
            format!(
                "{zeros} {length} {zeros} 00 {zeros} 00000400 00000001 00000000 {flags} {name}\n"
            )
        };
        let v6 = [
            line("00", "00000003", "wan0"),
            line("00", "00200200", "lo"),
            line("40", "00000001", "eth0"),
        ];
        assert_eq!(of_v6(&v6.concat()).collect::<Vec<_>>(), ["wan0"]);
        assert_eq!(of_v4("").count() + of_v6("").count(), 0);
    }
}
