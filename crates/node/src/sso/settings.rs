//! Which issuer, and who may join by it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::certificate::Name;
use crate::home::{self, HomeError};
use crate::limits::{SIGN_IN_URL, SSO_AGAIN, SSO_GROUPS, SSO_MACHINES};

/// Stands for every group: all people whom the issuer signs in may join.
const EVERYBODY: &str = "*";

/// What is wrong with settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The program was built without the feature `sso`.
    #[error("this build has no single sign-on: it was built without the feature `sso`")]
    NotBuilt,
    /// The issuer is none.
    #[error(
        "--oidc {0} is no issuer: use its https:// address, as its documentation calls the issuer, without a query (http:// is for loopback addresses only)"
    )]
    Issuer(String),
    /// No group, or too many.
    #[error(
        "--group is needed with --oidc, up to {SSO_GROUPS} times: whose people may join; `*` is everybody whom the issuer signs in"
    )]
    Groups,
    /// Out of range.
    #[error("--sso-machines {0} is out of range: use 1 to 1000")]
    Machines(u32),
    /// Out of range.
    #[error("--sso-again is out of range: use 10 seconds to 365 days")]
    Again,
    /// No proxy.
    #[error("--oidc-proxy {0} is no HTTP proxy: use http://HOST:PORT")]
    Proxy(String),
    /// The secret cannot be used.
    #[error("the client's secret: {0}")]
    Secret(#[from] HomeError),
    /// It is empty or no text.
    #[error(
        "{}: the client's secret must be one line of text, as the issuer has given it", .0.display()
    )]
    NoSecret(PathBuf),
    /// The authorities that the issuer's certificate is checked by cannot be used.
    #[error("--oidc-ca {}: {source}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
}

/// A client's secret, which is forgotten when it is dropped.
pub type Secret = Zeroizing<String>;

/// Who may join by signing in, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The issuer's address, as it stands in its tokens.
    pub issuer: String,
    /// The authority's name at the issuer.
    pub client: String,
    /// What it proves that name with; none for a public client.
    pub secret: Option<Secret>,
    /// People of any of these groups may join; `*` is everybody.
    pub groups: Vec<String>,
    /// The claim of the ID token that lists a person's groups.
    pub group_claim: String,
    /// The claim of the ID token that members are named by.
    pub name_claim: String,
    /// What members are named.
    pub names: NamePattern,
    /// Machines that one person may have in the ring at once, [`SSO_MACHINES`].
    pub machines: u32,
    /// After this long the person has to sign in again; none: never.
    pub again: Option<Duration>,
    /// True if routers may join as well.
    pub routers: bool,
    /// PEM file with authorities that the issuer's certificate may be signed by, besides the
    /// system's.
    pub ca: Option<PathBuf>,
    /// The HTTP proxy on the way to the issuer, `http://HOST:PORT`.
    pub proxy: Option<String>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("issuer", &self.issuer)
            .field("client", &self.client)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Settings of an issuer and of the groups that may join; all else is as where nothing is said.
    #[must_use]
    pub fn new(issuer: &str, groups: Vec<String>) -> Settings {
        Settings {
            issuer: issuer.to_owned(),
            client: "ringway".to_owned(),
            secret: None,
            groups,
            group_claim: "groups".to_owned(),
            name_claim: "preferred_username".to_owned(),
            names: NamePattern::default(),
            machines: 5,
            again: None,
            routers: false,
            ca: None,
            proxy: None,
        }
    }

    /// Reads the client's secret from a file that only its owner can read. What stands in
    /// `credentials`, systemd's folder for this service, is kept from others by systemd.
    ///
    /// # Errors
    /// When the file cannot be read, others can read it, or it is not one line of text.
    pub fn read_secret(path: &Path, credentials: Option<&Path>) -> Result<Secret, SettingsError> {
        let kept = credentials.is_some_and(|folder| path.starts_with(folder));
        let bytes = if kept {
            std::fs::read(path).map_err(|source| HomeError::new("reading", path, source))?
        } else {
            home::read_private(path)?
        };
        let bytes = Zeroizing::new(bytes);
        let text = std::str::from_utf8(&bytes).unwrap_or_default().trim();
        if text.is_empty() || text.lines().count() > 1 {
            return Err(SettingsError::NoSecret(path.to_owned()));
        }
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// Looks whether they can be used.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check(&self) -> Result<(), SettingsError> {
        let issuer = || SettingsError::Issuer(self.issuer.chars().take(200).collect());
        let fits = self.issuer.len() <= SIGN_IN_URL && !self.issuer.contains(['?', '#', '@']);
        let host = host_of(&self.issuer).filter(|_| fits).ok_or_else(issuer)?;
        if !self.issuer.starts_with("https://") && !is_loopback(host) {
            return Err(issuer());
        }
        if self.groups.is_empty()
            || self.groups.len() > SSO_GROUPS
            || self.groups.iter().any(String::is_empty)
        {
            return Err(SettingsError::Groups);
        }
        if !SSO_MACHINES.contains(&self.machines) {
            return Err(SettingsError::Machines(self.machines));
        }
        if self
            .again
            .is_some_and(|time| !SSO_AGAIN.contains(&time.as_secs()))
        {
            return Err(SettingsError::Again);
        }
        if let Some(proxy) = &self.proxy
            && self.proxy_at().is_none()
        {
            return Err(SettingsError::Proxy(proxy.chars().take(200).collect()));
        }
        Ok(())
    }

    /// True if everybody may join whom the issuer signs in.
    pub(super) fn is_everybody(&self) -> bool {
        self.groups.iter().any(|group| group == EVERYBODY)
    }

    /// The proxy as `HOST:PORT`.
    pub(super) fn proxy_at(&self) -> Option<&str> {
        let at = self.proxy.as_deref()?.strip_prefix("http://")?;
        let at = at.trim_end_matches('/');
        let (host, port) = at.rsplit_once(':')?;
        let fits = !host.is_empty() && !host.contains(['/', '@', '?']);
        let port: u16 = port.parse().ok()?;
        (fits && port > 0).then_some(at)
    }
}

/// The host of an http:// or https:// address, without its port.
pub(super) fn host_of(url: &str) -> Option<&str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split('/').next()?;
    let host = match authority.strip_prefix('[') {
        Some(ipv6) => ipv6.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
    (!host.is_empty() && host.chars().all(plain)).then_some(host)
}

/// True for this machine only, whatever DNS says.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip: Result<std::net::IpAddr, _> = host.parse();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// What a member is named: a text with `{user}` and `{machine}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(String);

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no pattern of names: use {{user}} or {{machine}} or both, and lower-case letters, digits and hyphens, such as {{user}}-{{machine}}"
)]
pub struct InvalidPattern(String);

impl Default for NamePattern {
    /// A name that says whose machine it is, so that no person can take the name of a server.
    fn default() -> NamePattern {
        NamePattern("{user}-{machine}".to_owned())
    }
}

impl FromStr for NamePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<NamePattern, InvalidPattern> {
        let pattern = NamePattern(text.to_owned());
        // One character each, so that what is too long for every name is refused here.
        let shortest = pattern.apply("u", "m");
        let has_part = text.contains("{user}") || text.contains("{machine}");
        if has_part && shortest.parse::<Name>().is_ok() {
            Ok(pattern)
        } else {
            Err(InvalidPattern(text.chars().take(64).collect()))
        }
    }
}

impl NamePattern {
    /// True if the name says whose machine it is.
    pub(crate) fn names_user(&self) -> bool {
        self.0.contains("{user}")
    }

    /// The name, which need not be one that a member can have.
    pub(crate) fn apply(&self, user: &str, machine: &str) -> String {
        self.0.replace("{user}", user).replace("{machine}", machine)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn settings(issuer: &str) -> Settings {
        Settings::new(issuer, vec!["staff".to_owned()])
    }

    #[test]
    fn issuers_are_https_or_on_loopback() {
        for good in [
            "https://sso.example.org",
            "https://sso.example.org:8443/realms/staff",
            "http://127.0.0.1:5556/dex",
            "http://[::1]:5556",
            "http://localhost:9998/",
        ] {
            settings(good).check().unwrap();
        }
        for bad in [
            "http://sso.example.org",
            "http://127.0.0.1.example.org/",
            "http://localhost@example.org/",
            "sso.example.org",
            "https://",
            "https://sso.example.org/?realm=staff",
            "ftp://sso.example.org",
            "https://sso example.org",
        ] {
            let error = settings(bad).check().unwrap_err();
            assert!(matches!(error, SettingsError::Issuer(_)), "{bad}: {error}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let good = settings("https://sso.example.org");
        let mut none = good.clone();
        none.groups.clear();
        assert!(matches!(none.check(), Err(SettingsError::Groups)));
        let mut machines = good.clone();
        machines.machines = 0;
        assert!(matches!(machines.check(), Err(SettingsError::Machines(0))));
        let mut again = good.clone();
        again.again = Some(Duration::from_secs(9));
        assert!(matches!(again.check(), Err(SettingsError::Again)));
        for bad in [
            "proxy:3128",
            "https://proxy:3128",
            "http://proxy",
            "http://a:b@p:1",
        ] {
            let mut proxy = good.clone();
            proxy.proxy = Some(bad.to_owned());
            assert!(
                matches!(proxy.check(), Err(SettingsError::Proxy(_))),
                "{bad}"
            );
        }
        let mut proxy = good;
        proxy.proxy = Some("http://proxy.example.org:3128/".to_owned());
        proxy.check().unwrap();
        assert_eq!(proxy.proxy_at(), Some("proxy.example.org:3128"));
    }

    #[test]
    fn patterns_make_member_names() {
        let default = NamePattern::default();
        assert_eq!("{user}-{machine}".parse(), Ok(default.clone()));
        assert_eq!(default.apply("ada", "laptop"), "ada-laptop");
        assert!("{machine}".parse::<NamePattern>().is_ok());
        for bad in [
            "",
            "fixed",
            "{user}_{machine}",
            "{User}",
            "-{user}",
            "{user}.x",
        ] {
            assert!(bad.parse::<NamePattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_that_others_can_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "s3cret\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode));
        mode(0o644).unwrap();
        let refused = Settings::read_secret(&path, None).unwrap_err();
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
        // systemd's folder is closed for others, whatever the files in it say.
        let kept = Settings::read_secret(&path, Some(folder.path())).unwrap();
        assert_eq!(*kept, "s3cret");
        mode(0o600).unwrap();
        assert_eq!(*Settings::read_secret(&path, None).unwrap(), "s3cret");
        std::fs::write(&path, "\n").unwrap();
        let empty = Settings::read_secret(&path, None).unwrap_err();
        assert!(matches!(empty, SettingsError::NoSecret(_)), "{empty}");
        let shown = format!("{:?}", settings("https://sso.example.org"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
