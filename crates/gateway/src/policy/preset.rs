//! Policies that come with the program, for the borders that most people have.

/// A policy that comes with the program. Each is a file in `presets`, with comments, and has tests
/// of its own in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A server whose clients reach the world through it: no file sharing.
    Vpn,
    /// A home router: file sharing leaves room for everybody else.
    Home,
    /// An office: no file sharing, and what evades the rules is recorded.
    Office,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 3] = [Preset::Vpn, Preset::Home, Preset::Office];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Preset::Vpn => "vpn",
            Preset::Home => "home",
            Preset::Office => "office",
        }
    }

    /// What it is for, in a line.
    #[must_use]
    pub fn purpose(self) -> &'static str {
        match self {
            Preset::Vpn => "a VPN server: no BitTorrent through it, nor other file sharing",
            Preset::Home => "a home router: file sharing is slowed, miners are blocked",
            Preset::Office => "an office: no file sharing; VPNs, Tor and remote control recorded",
        }
    }

    /// The policy itself, as a file has it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Preset::Vpn => include_str!("../../presets/vpn.toml"),
            Preset::Home => include_str!("../../presets/home.toml"),
            Preset::Office => include_str!("../../presets/office.toml"),
        }
    }

    /// The interfaces inside may be missing when the gateway starts: those of a VPN come and go
    /// with it.
    #[must_use]
    pub fn awaits_interfaces(self) -> bool {
        self == Preset::Vpn
    }
}

#[cfg(test)]
mod tests {
    use super::Preset;
    use crate::SignatureSet;
    use crate::policy::Policy;

    #[test]
    fn each_preset_passes_its_own_tests() {
        let set = SignatureSet::built_in();
        for preset in Preset::ALL {
            let policy = Policy::parse(preset.text(), &set.applications()).unwrap();
            let outcomes = policy.try_all();
            assert!(outcomes.len() >= 4, "{}", preset.name());
            let failed: Vec<_> = outcomes.iter().filter(|one| !one.passed).collect();
            assert!(failed.is_empty(), "{}: {failed:?}", preset.name());
            // It names no file, which would have to lie beside it.
            assert!(policy.feeds().is_empty());
        }
    }
}
