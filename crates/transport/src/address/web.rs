//! The address of a WebSocket server.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use url::{Host, Url};

use super::InvalidAddress;
use crate::limits::ADDRESS_BYTES;

/// A WebSocket address: `ws://host:port/path` or, with TLS, `wss://host:port/path`.
///
/// Where the server wants another name in the `Host` header (and in TLS) than the one to dial, that
/// name stands in the fragment, which HTTP never sends: `wss://192.0.2.1/ring#example.org`. There
/// is no user, no password and no query, and the path has letters, digits, `/`, `.`, `_` and `-`:
/// what a peer advertises is fetched, and must not be a command to somebody's web service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebAddress {
    text: Arc<str>,
}

impl WebAddress {
    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether TLS is used.
    pub fn is_secure(&self) -> bool {
        self.text.starts_with("wss:")
    }

    /// The host to dial, a name or an IP address without brackets, and the port.
    pub fn host_and_port(&self) -> (String, u16) {
        let default = if self.is_secure() { 443 } else { 80 };
        let Some(url) = self.url() else {
            return (String::new(), default);
        };
        let host = match url.host() {
            Some(Host::Ipv6(ip)) => ip.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        };
        (host, url.port().unwrap_or(default))
    }

    /// The name for the `Host` header and for TLS: the fragment, or else the host.
    pub fn server_name(&self) -> String {
        let url = self.url();
        let fragment = url.as_ref().and_then(|url| url.fragment());
        fragment.map_or_else(|| self.host_and_port().0, str::to_owned)
    }

    /// The path, which begins with `/`.
    pub fn path(&self) -> String {
        self.url()
            .map_or_else(|| "/".to_owned(), |url| url.path().to_owned())
    }

    /// The host, if it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        let url = self.url()?;
        match url.host()? {
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(IpAddr::from(ip).to_canonical()),
            Host::Domain(_) => None,
        }
    }

    fn url(&self) -> Option<Url> {
        Url::parse(&self.text).ok()
    }
}

fn is_host_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    !text.is_empty() && text.bytes().all(allowed)
}

impl FromStr for WebAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = |reason| InvalidAddress::new(text, reason);
        if text.len() > ADDRESS_BYTES {
            return Err(invalid("it is too long"));
        }
        let url = Url::parse(text).map_err(|_| invalid("it is no URL"))?;
        if !matches!(url.scheme(), "ws" | "wss") {
            return Err(invalid("it begins with ws:// or wss://"));
        }
        if url.host().is_none() {
            return Err(invalid("it has no host"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(invalid("there is no user, password or query in it"));
        }
        if url.port() == Some(0) {
            return Err(invalid("port 0 cannot be dialled"));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
        if !url.path().bytes().all(plain) {
            return Err(invalid("the path has letters, digits and `/._-`"));
        }
        if !url.fragment().is_none_or(is_host_name) {
            return Err(invalid("behind `#` stands a host name"));
        }
        // The URL's own spelling: one server, one address.
        let text = url.as_str();
        if text.len() > ADDRESS_BYTES {
            return Err(invalid("it is too long"));
        }
        Ok(Self { text: text.into() })
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web(text: &str) -> WebAddress {
        text.parse().unwrap()
    }

    #[test]
    fn host_port_server_name_and_path_are_read() {
        let address = web("wss://192.0.2.1:8443/ring#example.org");
        assert!(address.is_secure());
        assert_eq!(address.host_and_port(), ("192.0.2.1".to_owned(), 8443));
        assert_eq!(address.server_name(), "example.org");
        assert_eq!(address.path(), "/ring");
        let address = web("ws://[2001:db8::1]");
        assert_eq!(address.host_and_port(), ("2001:db8::1".to_owned(), 80));
        assert_eq!(address.path(), "/");
        assert_eq!(address.ip(), Some("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn one_server_has_one_spelling() {
        assert_eq!(
            web("WSS://Example.ORG:443/a/../b").as_str(),
            "wss://example.org/b"
        );
    }

    #[test]
    fn url_beyond_host_and_path_is_refused() {
        for text in [
            "http://example.org/",
            "ws://user@example.org/",
            "ws://u:p@example.org/",
            "ws://example.org/?delete=1",
            "ws://example.org/%0d%0a",
            "ws://example.org:0/",
            "ws://example.org/#a b",
            "not a url",
        ] {
            assert!(text.parse::<WebAddress>().is_err(), "{text}");
        }
    }
}
