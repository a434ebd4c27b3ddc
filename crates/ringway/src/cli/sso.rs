//! Enrolment by single sign-on: options of `ringway ring serve`, and `ringway ring link`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ringway_node::sso::NamePattern;

use super::ring::AuthorityFolder;
use super::values;

/// Who may join by signing in at the organisation's issuer.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Single sign-on")]
pub(crate) struct SsoArgs {
    /// Let people join by signing in at this OpenID Connect issuer; its https:// address, as it
    /// stands in its tokens
    #[arg(long, value_name = "ISSUER")]
    pub(crate) oidc: Option<String>,
    /// Whose people may join: a group of the issuer; `*` is everybody whom it signs in
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Vec<String>,
    /// The authority's name at the issuer [default: ringway]
    #[arg(long, value_name = "ID")]
    pub(crate) oidc_client: Option<String>,
    /// File with the secret that the issuer has given it, which only the authority's user can read
    /// [default: the credential `oidc-secret` of systemd, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) oidc_secret: Option<PathBuf>,
    /// The claim of the ID token that lists groups [default: groups]
    #[arg(long, value_name = "CLAIM")]
    pub(crate) group_claim: Option<String>,
    /// The claim of the ID token that members are named by [default: preferred_username]
    #[arg(long, value_name = "CLAIM")]
    pub(crate) name_claim: Option<String>,
    /// What members are named [default: {user}-{machine}]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) sso_names: Option<NamePattern>,
    /// Machines that one person may have in the ring at once, 1 to 1000 [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) sso_machines: Option<u32>,
    /// Have people sign in again after this time, from 10s to 365d; else one sign-in counts for as
    /// long as the member is not revoked
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) sso_again: Option<Duration>,
    /// Let routers join by signing in, too
    #[arg(long)]
    pub(crate) sso_routers: bool,
    /// PEM file with authorities that the issuer's certificate may be signed by, besides the
    /// system's
    #[arg(long, value_name = "FILE")]
    pub(crate) oidc_ca: Option<PathBuf>,
    /// HTTP proxy on the way to the issuer
    #[arg(long, value_name = "http://HOST:PORT")]
    pub(crate) oidc_proxy: Option<String>,
}

/// `ringway ring link`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring link
  ringway ring link --json

The link has the ring's public key, its domain and where it enrols, and no secret: it may stand on a
page of the intranet. It has to come unchanged, because it says which ring people join. They join by
`ringway join LINK` while `ringway ring serve --oidc` runs.")]
pub(crate) struct LinkArgs {
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}
