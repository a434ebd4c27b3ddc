//! Why a person has not become a member by signing in: in words for the person.

use std::fmt;

/// Why a sign-in has brought no certificate. What it says goes to the joining member; what only the
/// owner can mend is in the authority's log as well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The authority has no issuer.
    #[error("people do not join this ring by signing in: ask its owner for an invite")]
    Off,
    /// As many are open as may be.
    #[error("too many people are signing in now: try again in some minutes")]
    Full,
    /// As many were begun as may be.
    #[error("too many sign-ins were begun lately: try again in a minute")]
    TooFast,
    /// There is no such sign-in, or it is another key's.
    #[error(
        "the authority does not know this sign-in: it was started again, or the sign-in was left for too long; run `ringway join` again"
    )]
    Unknown,
    /// The issuer has not answered.
    #[error(
        "the issuer {issuer} does not answer the ring's authority ({reason}): try again later; if that does not help, tell the ring's owner"
    )]
    Silent {
        /// Its address.
        issuer: String,
        /// What came instead.
        reason: String,
    },
    /// The issuer does not take the authority for one of its clients.
    #[error(
        "the issuer {issuer} refuses the ring's authority ({reason}): the ring's owner has to look at `oidc-client` and `oidc-secret`, and whether the issuer allows that client the device authorization grant"
    )]
    Client {
        /// Its address.
        issuer: String,
        /// The issuer's word.
        reason: String,
    },
    /// It has no device authorization endpoint.
    #[error(
        "the issuer {0} offers no device authorization grant (RFC 8628): the ring's owner has to switch it on there"
    )]
    NoDeviceGrant(String),
    /// No person has signed in in time.
    #[error(
        "the code has run out before it was confirmed: run `ringway join` again for another one"
    )]
    Expired,
    /// The person, or the issuer for the person, has said no.
    #[error("the sign-in was refused at the issuer: it was cancelled, or is not allowed there")]
    Denied,
    /// What the issuer has sent does not verify.
    #[error(
        "what the issuer has sent does not verify ({0}): no one was admitted; tell the ring's owner"
    )]
    Token(String),
    /// Nothing says in which groups the person is.
    #[error(
        "the issuer names no groups of {person} (claim `{claim}` of the ID token): either there are none, or the ring's owner has to have them put into the token, or to name another claim with `group-claim`"
    )]
    NoGroups {
        /// Who has signed in.
        person: String,
        /// The claim that was looked for.
        claim: String,
    },
    /// The person is in none of the groups.
    #[error(
        "{person} is in no group that may join this ring ({}): sign in as somebody who is, or ask the ring's owner",
        Listed(.groups)
    )]
    WrongGroup {
        /// Who has signed in.
        person: String,
        /// Those that may join.
        groups: Vec<String>,
    },
    /// The token has nothing to make a name of.
    #[error(
        "the issuer does not say what {person} is called (claim `{claim}` of the ID token): the ring's owner has to name another with `name-claim`"
    )]
    NoName {
        /// Who has signed in.
        person: String,
        /// The claim that was looked for.
        claim: String,
    },
    /// The pattern makes no member name of it.
    #[error(
        "`{0}` is not a member name: give the machine another one with --name; all together may have 32 lower-case letters, digits and inner hyphens"
    )]
    Name(String),
    /// Another member has it.
    #[error("the name `{0}` belongs to another member: give the machine another one with --name")]
    NameTaken(String),
    /// Two people would share the part of their names that says who they are.
    #[error(
        "members of another person are named `{0}` in this ring: ask the ring's owner for an invite"
    )]
    UserTaken(String),
    /// The person has as many as may be.
    #[error(
        "{person} has {} machines in this ring ({}), and {most} are the most: have one revoked by the ring's owner",
        .machines.len(), Listed(.machines)
    )]
    TooMany {
        /// Who has signed in.
        person: String,
        /// The members' names.
        machines: Vec<String>,
        /// As many as may be.
        most: u32,
    },
    /// A router asks where only leaves may.
    #[error(
        "only leaves join this ring by signing in: leave --listen out, or ask its owner for an invite"
    )]
    NoRouters,
    /// The key is a member's for whom somebody else, or no one, has signed in.
    #[error(
        "this machine is the member `{0}`, for whom another person has signed in, or who was invited: nothing was changed"
    )]
    OtherPerson(String),
    /// The membership goes on only with a new sign-in.
    #[error(
        "its person has to sign in again: run `ringway join LINK` there, with the ring's join link"
    )]
    SignInAgain,
}

/// Some of a list's words.
struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let shown: Vec<&str> = self.0.iter().take(SHOWN).map(String::as_str).collect();
        f.write_str(&shown.join(", "))?;
        if self.0.len() > SHOWN {
            f.write_str(" and more")?;
        }
        Ok(())
    }
}
