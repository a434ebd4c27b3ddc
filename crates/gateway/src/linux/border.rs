//! The interfaces between an organisation and the world.

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

/// Bytes of an interface's name, from `linux/if.h` without the closing zero.
const NAME: usize = 15;

/// The interfaces of the border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Border {
    /// Interfaces towards the organisation.
    pub inside: Vec<String>,
    /// Interfaces towards the world.
    pub outside: Vec<String>,
    /// They are ports of a bridge; else the machine routes between them.
    pub bridged: bool,
}

impl Border {
    /// Checks the names.
    ///
    /// # Errors
    /// A side is missing, a name is none, or one stands on both sides.
    pub fn check(&self) -> Result<(), String> {
        if self.inside.is_empty() || self.outside.is_empty() {
            return Err("a border needs at least one interface inside and one outside".to_owned());
        }
        for name in self.all() {
            let plain =
                |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '"' | '\'' | '+' | '!');
            if name.is_empty() || name.len() > NAME || !name.chars().all(plain) {
                return Err(format!("`{name}` is no name of an interface"));
            }
        }
        match self.inside.iter().find(|name| self.outside.contains(name)) {
            Some(name) => Err(format!("`{name}` cannot be inside and outside")),
            None => Ok(()),
        }
    }

    /// All interfaces, those inside first.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.inside.iter().chain(&self.outside).map(String::as_str)
    }

    /// The kernel's numbers of those that there are.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.all().filter_map(number).collect()
    }

    /// The matches of packets that cross the border, both ways.
    pub(super) fn crossings(&self) -> Vec<String> {
        let mut crossings = Vec::new();
        for inside in &self.inside {
            for outside in &self.outside {
                for (from, to) in [(inside, outside), (outside, inside)] {
                    crossings.push(if self.bridged {
                        format!(
                            "-m physdev --physdev-in {from} --physdev-out {to} --physdev-is-bridged"
                        )
                    } else {
                        format!("-i {from} -o {to}")
                    });
                }
            }
        }
        crossings
    }

    /// The matches of packets that go to an interface inside, or come from one, each with the word
    /// for the address that is inside then.
    pub(super) fn inside_matches(&self) -> Vec<(String, &'static str)> {
        let of_interface = |name: &String| {
            if self.bridged {
                [
                    (
                        format!("-m physdev --physdev-out {name} --physdev-is-bridged"),
                        "-d",
                    ),
                    (
                        format!("-m physdev --physdev-in {name} --physdev-is-bridged"),
                        "-s",
                    ),
                ]
            } else {
                [(format!("-o {name}"), "-d"), (format!("-i {name}"), "-s")]
            }
        };
        self.inside.iter().flat_map(of_interface).collect()
    }
}

/// The kernel's number of an interface; `None`: there is none of this name. One that goes and comes
/// again has another number.
pub(super) fn number(interface: &str) -> Option<u32> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    name_to_index(&socket, interface).ok()
}

#[cfg(test)]
mod tests {
    use super::Border;

    #[test]
    fn borders_that_cannot_be_meant_are_refused() {
        let border = |inside: &str, outside: &str| Border {
            inside: vec![inside.to_owned()],
            outside: vec![outside.to_owned()],
            bridged: true,
        };
        assert!(border("lan0", "wan0").check().is_ok());
        for (inside, outside) in [
            ("", "wan0"),
            ("lan0", "lan0"),
            ("a b", "wan0"),
            ("averyverylongname", "wan0"),
            ("eth+", "wan0"),
        ] {
            assert!(
                border(inside, outside).check().is_err(),
                "{inside} {outside}"
            );
        }
    }
}
