//! Members whose build speaks another version of the link protocol: named in the log and in
//! `ringway path`.

use ringway_transport::MemberId;

use super::Core;
use crate::link::{LinkVersion, OtherVersion, Who};
use crate::versions::{LINK, LINK_OLDEST, RELEASE};

impl Core {
    /// The link with this member is of an earlier version.
    pub(in crate::member) fn log_earlier_version(&self, member: &MemberId) {
        let name = self.name_of(member);
        let version = LinkVersion::Earlier.number();
        tracing::warn!(
            member = name,
            version,
            newest = LINK,
            "a link is of an earlier version of the link protocol: update that member"
        );
    }

    /// A member that speaks none of our versions was met, for the first time.
    pub(in crate::member) fn log_other_version(&self, other: &OtherVersion) {
        let known = self.directory.first_where(|member| other.is_of(member));
        let name = known.map_or_else(
            || "one that is not known here".to_owned(),
            |certificate| certificate.name().to_string(),
        );
        let path = &other.path;
        let text = in_words(other);
        tracing::warn!(member = name, %path, "no link with a member: {text}");
    }

    /// Why there can be no link with this member, if it is for its version.
    pub(in crate::member) fn other_version(&self, member: &MemberId) -> Option<String> {
        self.links.versions().other(member).map(in_words)
    }
}

/// What was met, and what mends it.
fn in_words(other: &OtherVersion) -> String {
    let version = other.version;
    let met = match other.who {
        Who::Proved(_) => format!("its build speaks version {version} of the link protocol"),
        Who::Claimed(_) => format!(
            "what answers at {} says that it speaks version {version} of the link protocol",
            other.path
        ),
    };
    let mend = if version < LINK_OLDEST {
        "update that member"
    } else {
        "update this one"
    };
    format!("{met}, this one (ringway {RELEASE}) {LINK_OLDEST} and {LINK}: {mend}")
}
