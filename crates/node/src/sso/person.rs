//! Who has signed in, and what that person's machine is named.

use serde_json::{Map, Value};

use super::refused::Refused;
use super::settings::Settings;
use crate::certificate::Name;
use crate::limits::PERSON_CHARS;
use crate::text::printable;

/// A person, as the issuer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) issuer: String,
    /// What the issuer never gives to another person (claim `sub`).
    pub(crate) subject: String,
    /// What people know the person by: a mail address, where there is one.
    pub(crate) shown: String,
    /// The part of members' names that says whose they are; empty if names do not say that.
    pub(crate) user: String,
    /// The groups by which the person may join; none where everybody may.
    pub(crate) groups: Vec<String>,
}

impl Person {
    /// The person of a verified token, if it may join.
    pub(crate) fn admitted(
        settings: &Settings,
        subject: &str,
        claims: &Map<String, Value>,
    ) -> Result<Person, Refused> {
        let text = |claim: &str| match claim {
            "sub" => Some(subject),
            claim => claims.get(claim).and_then(Value::as_str),
        };
        // An address that no one has proven could be anybody's.
        let unproven = claims.get("email_verified") == Some(&Value::Bool(false));
        let email = text("email").filter(|_| !unproven);
        let shown = email.or(text("preferred_username")).unwrap_or(subject);
        let shown = printable(shown, PERSON_CHARS);
        let groups = groups_of(settings, &shown, claims)?;
        let named = match settings.name_claim.as_str() {
            "email" => email,
            claim => text(claim),
        };
        // Few issuers have no such claim, and those have the address.
        let user = label(named.or(email).unwrap_or_default());
        if user.is_empty() && settings.names.names_user() {
            return Err(Refused::NoName {
                person: shown,
                claim: settings.name_claim.clone(),
            });
        }
        // Where names do not say whose they are, two people may be called the same.
        let user = if settings.names.names_user() {
            user
        } else {
            String::new()
        };
        Ok(Person {
            issuer: settings.issuer.clone(),
            subject: subject.to_owned(),
            shown,
            user,
            groups,
        })
    }

    /// What this person's machine is named, by the owner's pattern.
    pub(crate) fn name(&self, settings: &Settings, machine: &str) -> Result<Name, Refused> {
        let name = settings.names.apply(&self.user, machine);
        name.parse()
            .map_err(|_| Refused::Name(printable(&name, PERSON_CHARS)))
    }
}

/// Those of the person's groups that may join.
fn groups_of(
    settings: &Settings,
    shown: &str,
    claims: &Map<String, Value>,
) -> Result<Vec<String>, Refused> {
    if settings.is_everybody() {
        return Ok(Vec::new());
    }
    let claim = claims.get(&settings.group_claim);
    let held: Vec<&str> = match claim {
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
        // Such as Google's `hd`, the domain of an organisation.
        Some(Value::String(group)) => vec![group],
        _ => {
            return Err(Refused::NoGroups {
                person: shown.to_owned(),
                claim: settings.group_claim.clone(),
            });
        }
    };
    // Exactly: `staff` is neither `Staff` nor `/staff`, which are other groups elsewhere.
    let fitting = settings
        .groups
        .iter()
        .filter(|group| held.contains(&group.as_str()));
    let fitting: Vec<String> = fitting.cloned().collect();
    if fitting.is_empty() {
        return Err(Refused::WrongGroup {
            person: shown.to_owned(),
            groups: settings.groups.clone(),
        });
    }
    Ok(fitting)
}

/// A part of a member's name made of what people write: of a mail address what is before the `@`,
/// letters in lower case, and a hyphen for whatever a name cannot have.
pub(crate) fn label(text: &str) -> String {
    let local = text.split('@').next().unwrap_or_default();
    let mut label = String::new();
    for c in local.chars().take(PERSON_CHARS) {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            label.push(c);
        } else if !label.is_empty() && !label.ends_with('-') {
            label.push('-');
        }
    }
    label.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn settings() -> Settings {
        Settings::new("https://sso.example.org", vec!["staff".to_owned()])
    }

    fn admitted(settings: &Settings, claims: Value) -> Result<Person, Refused> {
        let Value::Object(claims) = claims else {
            panic!("{claims}")
        };
        Person::admitted(settings, "1234", &claims)
    }

    #[test]
    fn people_of_a_group_are_admitted() {
        let claims = json!({
            "groups": ["all", "staff"], "email": "ada@example.org", "email_verified": true,
            "preferred_username": "Ada.Lovelace",
        });
        let ada = admitted(&settings(), claims).unwrap();
        assert_eq!(ada.shown, "ada@example.org");
        assert_eq!((ada.user.as_str(), ada.groups.len()), ("ada-lovelace", 1));
        let name = ada.name(&settings(), "laptop").unwrap();
        assert_eq!(name.as_str(), "ada-lovelace-laptop");
        let long = ada.name(&settings(), &"x".repeat(32)).unwrap_err();
        assert!(matches!(long, Refused::Name(_)), "{long}");
    }

    #[test]
    fn other_groups_are_refused() {
        for (groups, expected) in [
            (
                json!(["Staff", "/staff", "staff2", "staff "]),
                "in no group",
            ),
            (json!([]), "in no group"),
            (json!("students"), "in no group"),
            (json!(null), "names no groups of"),
            (json!({"staff": true}), "names no groups of"),
            (json!([["staff"], {"name": "staff"}]), "in no group"),
        ] {
            let claims = json!({"groups": groups, "preferred_username": "eve"});
            let refused = admitted(&settings(), claims).unwrap_err().to_string();
            assert!(refused.contains(expected), "{groups}: {refused}");
        }
        let none = admitted(&settings(), json!({"preferred_username": "eve"}));
        assert!(matches!(none, Err(Refused::NoGroups { .. })));
    }

    #[test]
    fn one_text_is_a_group_too() {
        let mut google = settings();
        google.group_claim = "hd".to_owned();
        google.groups = vec!["example.org".to_owned()];
        let claims = json!({"hd": "example.org", "email": "ada@example.org"});
        assert_eq!(admitted(&google, claims).unwrap().user, "ada");
    }

    #[test]
    fn unproven_addresses_are_not_shown() {
        let mut everybody = settings();
        everybody.groups = vec!["*".to_owned()];
        let claims = json!({"email": "owner@example.org", "email_verified": false});
        let refused = admitted(&everybody, claims).unwrap_err().to_string();
        assert!(!refused.contains("owner@"), "{refused}");
        let claims = json!({
            "email": "owner@example.org", "email_verified": false, "preferred_username": "eve",
        });
        assert_eq!(admitted(&everybody, claims).unwrap().shown, "eve");
    }

    #[test]
    fn what_is_shown_cannot_change_a_terminal() {
        let mut everybody = settings();
        everybody.groups = vec!["*".to_owned()];
        let claims = json!({"preferred_username": "eve\u{1b}[2J\u{202e}"});
        let eve = admitted(&everybody, claims).unwrap();
        assert_eq!(
            (eve.shown.as_str(), eve.user.as_str()),
            ("eve[2J", "eve-2j")
        );
    }

    proptest! {
        #[test]
        fn labels_are_parts_of_names(text in ".{0,300}") {
            let label = label(&text);
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            prop_assert!(label.chars().all(fits));
            prop_assert!(!label.starts_with('-') && !label.ends_with('-'));
        }
    }
}
