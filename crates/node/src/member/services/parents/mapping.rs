//! A port of the home router that leads to this leaf, where the router gives one: by PCP or NAT-PMP
//! (RFC 6887, RFC 6886).
//!
//! No router is asked before a parent has heard us from a public address that is not our own: on
//! loopback, at a site with its own router, or without a NAT nothing is sent.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use crab_nat::{
    GatewayAddress, InternetProtocol, PortMapping as Mapping, PortMappingOptions, PortMappingType,
    TimeoutConfig, natpmp,
};
use ringway_transport::Address;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::limits::{MAPPING_LEASE, MAPPING_PAUSE, MAPPING_RENEWAL};

/// How long the router may take: four packets, 3.75 s in all.
const PATIENCE: TimeoutConfig = TimeoutConfig {
    initial_timeout: Duration::from_millis(250),
    max_retries: 3,
    max_retry_timeout: None,
};

/// The mapping of our UDP port, if there is or may be one.
#[derive(Debug)]
pub(super) struct PortMapping {
    /// Our port; none if the user wants no mapping, or there is no UDP.
    port: Option<NonZeroU16>,
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    external: watch::Receiver<Option<SocketAddr>>,
    /// From where we were heard when the router was last asked.
    heard_from: IpAddr,
    moved: Arc<Notify>,
    /// Held for its drop: it ends the task.
    _task: JoinSet<()>,
}

impl PortMapping {
    pub(super) fn new(port: Option<u16>) -> PortMapping {
        PortMapping {
            port: port.and_then(NonZeroU16::new),
            asked: None,
        }
    }

    /// A parent hears us from here: asks the home router for a port, if that shows that there may
    /// be one.
    pub(super) fn heard_from(&mut self, address: &Address) {
        let Some(port) = self.port else {
            return;
        };
        let Some(socket) = address.socket().filter(|_| !address.is_private()) else {
            return;
        };
        if let Some(asked) = &mut self.asked {
            if asked.heard_from != socket.ip() {
                asked.heard_from = socket.ip();
                asked.moved.notify_one();
            }
            return;
        }
        if !is_translated(socket) {
            return;
        }
        tracing::debug!(heard_from = %socket, "the home router is asked for a port");
        let (found, external) = watch::channel(None);
        let moved = Arc::new(Notify::new());
        let mut task = JoinSet::new();
        task.spawn(hold(port, found, Arc::clone(&moved)));
        self.asked = Some(Asked {
            external,
            heard_from: socket.ip(),
            moved,
            _task: task,
        });
    }

    /// Whether the home router was asked.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Where others can send to, as the home router says.
    pub(super) fn external(&self) -> Option<Address> {
        let external = *self.asked.as_ref()?.external.borrow();
        let address = Address::Udp(external?);
        address.is_dialable().then_some(address)
    }
}

/// True if the way to the Internet leaves from another address than the one from which we are
/// heard.
fn is_translated(heard_from: SocketAddr) -> bool {
    heard_from.is_ipv4() && local_address(heard_from).is_ok_and(|local| local != heard_from.ip())
}

/// Our address on the way to `remote`. Sends nothing.
fn local_address(remote: SocketAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

/// Gets a mapping and renews it, for ever; asks again when we have moved.
async fn hold(port: NonZeroU16, found: watch::Sender<Option<SocketAddr>>, moved: Arc<Notify>) {
    let mut mapping: Option<Mapping> = None;
    loop {
        let renewed = match mapping.take() {
            Some(mut old) => old.renew().await.is_ok().then_some(old),
            None => None,
        };
        mapping = match renewed {
            Some(mapping) => Some(mapping),
            None => ask(port).await,
        };
        let external = match &mapping {
            Some(mapping) => external_of(mapping).await,
            None => None,
        };
        found.send_if_modified(|known| std::mem::replace(known, external) != external);
        let pause = match &mapping {
            Some(mapping) => Duration::from_secs(u64::from(mapping.lifetime() / 2)),
            None => MAPPING_PAUSE,
        };
        tokio::select! {
            () = tokio::time::sleep(pause.clamp(MAPPING_RENEWAL, MAPPING_PAUSE)) => {}
            // Another outer address, perhaps another router.
            () = moved.notified() => mapping = None,
        }
    }
}

async fn ask(port: NonZeroU16) -> Option<Mapping> {
    let gateway = gateway()?;
    let own = local_address((gateway, crab_nat::GATEWAY_PORT).into()).ok()?;
    let options = PortMappingOptions {
        external_port: Some(port),
        lifetime_seconds: Some(MAPPING_LEASE),
        timeout_config: Some(PATIENCE),
    };
    let gateway = GatewayAddress::IpV4(gateway);
    let udp = InternetProtocol::Udp;
    let mapping = match Mapping::new(gateway, own, udp, port, options).await {
        Ok(mapping) => Ok(mapping),
        // Some old routers do not even say that they do not know PCP.
        Err(_) => natpmp::port_mapping(gateway, udp, port, options).await,
    };
    match mapping {
        Ok(mapping) => Some(mapping),
        Err(error) => {
            tracing::debug!(%error, "the home router gives no port");
            None
        }
    }
}

async fn external_of(mapping: &Mapping) -> Option<SocketAddr> {
    let ip = match mapping.mapping_type() {
        PortMappingType::Pcp { external_ip, .. } => external_ip,
        PortMappingType::NatPmp => {
            let address = natpmp::external_address(mapping.gateway(), Some(PATIENCE)).await;
            IpAddr::V4(address.ok()?)
        }
    };
    Some(SocketAddr::new(ip, mapping.external_port().get()))
}

/// The router of the default route (Linux).
fn gateway() -> Option<Ipv4Addr> {
    let table = std::fs::read_to_string("/proc/net/route").ok()?;
    table.lines().skip(1).find_map(gateway_of)
}

/// A line of `/proc/net/route`: interface, destination, gateway, flags and more, in hexadecimal as
/// the machine keeps them.
fn gateway_of(line: &str) -> Option<Ipv4Addr> {
    /// `RTF_GATEWAY` of `<linux/route.h>`.
    const VIA_GATEWAY: u32 = 2;
    let mut fields = line.split_ascii_whitespace().skip(1);
    let mut number = || u32::from_str_radix(fields.next()?, 16).ok();
    let (destination, gateway, flags) = (number()?, number()?, number()?);
    let default = destination == 0 && flags & VIA_GATEWAY != 0;
    default.then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_default_route_names_the_gateway() {
        let line = "eth0\t00000000\t0109A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0";
        assert_eq!(gateway_of(line), Some([192, 168, 9, 1].into()));
        for other in [
            "eth0\t0009A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
            "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0",
            "eth0\t00000000",
            "",
            "eth0 x y z",
        ] {
            assert_eq!(gateway_of(other), None, "{other}");
        }
    }

    /// No router is asked where there is no NAT.
    #[test]
    fn no_mapping_is_asked_without_nat() {
        for heard_from in [
            "udp://127.0.0.1:7000",
            "udp://10.0.0.1:7000",
            "tcp://[::1]:1",
        ] {
            let mut mapping = PortMapping::new(Some(7_000));
            mapping.heard_from(&heard_from.parse().unwrap());
            assert!(mapping.asked.is_none(), "{heard_from}");
        }
        let own = SocketAddr::from(([127, 0, 0, 1], 7_000));
        assert!(!is_translated(own), "our own address");
    }
}
