//! Where a new router listens, and where others reach it: settled before an invite is used up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::client::JoinError;
use crate::endpoint::Endpoint;
use crate::machine;

/// Where a router is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouterPlace {
    /// What stands in its certificate.
    pub(crate) advertised: SocketAddr,
    /// Where it listens.
    pub(crate) listen: SocketAddr,
}

impl RouterPlace {
    /// The place of the two options; none is a leaf's.
    ///
    /// # Errors
    /// When others could not reach the router there, or it could not listen there.
    pub(crate) fn of(
        listen: Option<SocketAddr>,
        advertise: Option<SocketAddr>,
    ) -> Result<Option<RouterPlace>, JoinError> {
        let Some(advertised) = advertise.or(listen) else {
            return Ok(None);
        };
        if !Endpoint::from(advertised).is_dialable() {
            return Err(match advertise {
                Some(address) => JoinError::Advertise(address),
                None => JoinError::Listen(advertised),
            });
        }
        if let Some(listen) =
            listen.filter(|listen| listen.port() == 0 || machine::is_foreign(listen))
        {
            return Err(JoinError::NotHere(listen));
        }
        let place = RouterPlace::advertised(advertised);
        let listen = listen.unwrap_or(place.listen);
        Ok(Some(RouterPlace { listen, ..place }))
    }

    /// The place of a router of which only the certificate's address is known: there, or at all
    /// addresses where that one is not this machine's.
    pub(crate) fn advertised(advertised: SocketAddr) -> RouterPlace {
        let everywhere: IpAddr = match advertised.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let listen = if machine::is_foreign(&advertised) {
            SocketAddr::new(everywhere, advertised.port())
        } else {
            advertised
        };
        RouterPlace { advertised, listen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(listen: &str, advertise: &str) -> Result<String, String> {
        let read = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        let place = RouterPlace::of(read(listen), read(advertise));
        let place = place.map_err(|error| error.to_string())?;
        let shown = place.map(|place| format!("{} for {}", place.listen, place.advertised));
        Ok(shown.unwrap_or_else(|| "leaf".to_owned()))
    }

    #[test]
    fn routers_listen_where_this_machine_is() {
        for (listen, advertise, found) in [
            ("", "", "leaf"),
            ("127.0.0.1:7400", "", "127.0.0.1:7400 for 127.0.0.1:7400"),
            ("", "127.0.0.1:7400", "127.0.0.1:7400 for 127.0.0.1:7400"),
            ("", "192.0.2.7:7400", "0.0.0.0:7400 for 192.0.2.7:7400"),
            ("", "[2001:db8::7]:7400", "[::]:7400 for [2001:db8::7]:7400"),
            (
                "0.0.0.0:7500",
                "192.0.2.7:7400",
                "0.0.0.0:7500 for 192.0.2.7:7400",
            ),
        ] {
            assert_eq!(place(listen, advertise).as_deref(), Ok(found));
        }
        for (listen, advertise, words) in [
            ("0.0.0.0:7400", "", "--advertise"),
            ("127.0.0.1:0", "", "port"),
            ("192.0.2.7:7400", "", "no address of this machine"),
            (
                "192.0.2.7:7400",
                "192.0.2.8:7400",
                "no address of this machine",
            ),
            ("0.0.0.0:7400", "0.0.0.0:7400", "others"),
        ] {
            let refused = place(listen, advertise).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
