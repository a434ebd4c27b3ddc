//! Groups of applications, so that a rule need not name them all.

use std::sync::LazyLock;

use serde::Deserialize;

/// Applications that are of one kind, as `signatures/groups.toml` lists them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name, as rules write it.
    pub name: String,
    /// A name that it had before, which rules may still write.
    pub also: Option<String>,
    /// The names of the applications in it, as the classifier gives them.
    pub applications: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    group: Vec<Group>,
}

/// All groups, in the order of the file.
#[must_use]
pub fn groups() -> &'static [Group] {
    static GROUPS: LazyLock<Vec<Group>> = LazyLock::new(|| {
        // The file is a part of the program; a test reads it.
        toml::from_str::<GroupFile>(include_str!("../../signatures/groups.toml"))
            .map(|file| file.group)
            .unwrap_or_default()
    });
    &GROUPS
}

/// The name of the group that an application belongs to; `None` for `unknown`, and for what only
/// signature files of the user's own find.
#[must_use]
pub fn group_of(application: &str) -> Option<&'static str> {
    // In the order of applications: one look-up for each flow that ends.
    static NAMES: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
        let listed = groups().iter().flat_map(|group| {
            let names = group.applications.iter();
            names.map(|name| (name.as_str(), group.name.as_str()))
        });
        let mut names: Vec<_> = listed.collect();
        names.sort_unstable();
        names
    });
    let place = NAMES
        .binary_search_by(|(name, _)| (*name).cmp(application))
        .ok()?;
    NAMES.get(place).map(|(_, group)| *group)
}

/// The group of this name.
pub(super) fn group(name: &str) -> Option<&'static Group> {
    groups()
        .iter()
        .find(|group| group.name == name || group.also.as_deref() == Some(name))
}

/// The applications of these groups. An error names the groups that there are.
pub(super) fn members(names: &[String]) -> Result<Vec<String>, String> {
    let mut members = Vec::new();
    for name in names {
        let group = group(name).ok_or_else(|| {
            let known: Vec<&str> = groups().iter().map(|group| group.name.as_str()).collect();
            format!("there is no group `{name}`; there are {}", known.join(", "))
        })?;
        members.extend_from_slice(&group.applications);
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::groups;
    use crate::classify::SignatureSet;

    #[test]
    fn each_application_is_in_one_group() {
        let known = SignatureSet::built_in().applications();
        let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        let listed: Vec<&str> = groups()
            .iter()
            .flat_map(|group| group.applications.iter().map(String::as_str))
            .collect();
        let distinct: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(distinct.len(), listed.len(), "one is in two groups");
        assert_eq!(distinct, known);
    }
}
