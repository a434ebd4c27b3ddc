//! The QUIC settings of endpoints and of connections, by what they are for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use aws_lc_rs::hmac;
use noq::congestion::{ControllerFactory, CubicConfig};
use noq::{AckFrequencyConfig, EndpointConfig, MtuDiscoveryConfig, TransportConfig, VarInt};
use noq_proto::HashedConnectionIdGenerator;
use rustix::net::sockopt;

use super::controller::{Control, PriorityFactory};
use super::endpoint::CongestionControl;
use super::tls::Purpose;
use crate::limits;

/// The payload that every path of QUIC carries, RFC 9000 §14.
const LEAST_PAYLOAD: u16 = 1200;

/// Who made a connection, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// We did.
    Dialled(Purpose),
    /// The peer did. What for is not known yet when these settings are needed.
    Accepted {
        /// It may be for messages.
        links: bool,
    },
    /// Either, for a program without a ring.
    Dtl,
}

/// An endpoint that takes packets of up to [`limits::QUIC_PAYLOAD`] bytes. Its keys for stateless
/// resets (RFC 9000 §10.3) follow from the member's: once it has started again, it ends the
/// connections of its former life, and their peers need not wait until those time out.
///
/// # Errors
/// If QUIC refuses that size.
pub(super) fn endpoint(
    identity: &ed25519_dalek::SigningKey,
) -> Result<EndpointConfig, noq::ConfigError> {
    let root = hmac::Key::new(hmac::HMAC_SHA256, identity.as_bytes());
    let reset = hmac::sign(&root, b"ringway/1 quic reset");
    let ids = hmac::sign(&root, b"ringway/1 quic connection ids");
    let ids = ids.as_ref().first_chunk().copied().unwrap_or_default();
    let ids = u64::from_be_bytes(ids);
    let reset = hmac::Key::new(hmac::HMAC_SHA256, reset.as_ref());
    let mut config = EndpointConfig::new(Arc::new(reset));
    config.cid_generator(Arc::new(move || {
        Box::new(HashedConnectionIdGenerator::from_key(ids))
    }));
    config.max_udp_payload_size(limits::QUIC_PAYLOAD)?;
    Ok(config)
}

/// The largest UDP payload that may leave for an address, as far as this host knows: that of the
/// interface, or of the route. To look for more would fail packet after packet, and a search
/// between far bounds errs where the path is busy and probes are lost.
pub(super) fn largest_payload(to: SocketAddr) -> u16 {
    let mtu = || -> std::io::Result<u32> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        Ok(match to {
            SocketAddr::V4(_) => sockopt::ip_mtu(&socket)?.saturating_sub(20 + 8),
            SocketAddr::V6(_) => sockopt::ipv6_mtu(&socket)?.saturating_sub(40 + 8),
        })
    };
    // Where it cannot be known, what goes through nearly everywhere.
    let payload = mtu()
        .ok()
        .and_then(|mtu| u16::try_from(mtu).ok().or(Some(u16::MAX)));
    payload
        .unwrap_or(limits::QUIC_PAYLOAD_UNKNOWN)
        .clamp(LEAST_PAYLOAD, limits::QUIC_PAYLOAD)
}

/// The settings of one connection, with its own controller. `largest` is the largest payload to
/// look for; `None` over messages, which have the link's own.
pub(super) fn transport(
    congestion: &CongestionControl,
    control: &Arc<Control>,
    role: Role,
    largest: Option<u16>,
) -> Arc<TransportConfig> {
    // Our controllers find out themselves what is lost: QUIC need not be in haste to send it again.
    let own_detection = matches!(congestion, CongestionControl::Priority(_));
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match congestion {
        CongestionControl::Cubic => Arc::new(CubicConfig::default()),
        CongestionControl::Priority(config) => Arc::new(PriorityFactory {
            control: control.clone(),
            config: config.clone(),
        }),
    };
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(limits::QUIC_ACK_THRESHOLD))
        .max_ack_delay(Some(limits::QUIC_ACK_DELAY));
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(largest.unwrap_or(limits::QUIC_MESSAGE_BYTES));
    let mut config = TransportConfig::default();
    if own_detection {
        config
            .packet_threshold(u32::MAX)
            .time_threshold(limits::QUIC_GIVEN_UP);
    }
    config
        .congestion_controller_factory(congestion)
        .mtu_discovery_config(Some(discovery))
        .ack_frequency_config(Some(acks))
        .max_concurrent_bidi_streams(VarInt::from_u32(limits::QUIC_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(limits::QUIC_UNI_STREAMS))
        .stream_receive_window(VarInt::from_u32(limits::QUIC_STREAM_WINDOW))
        .receive_window(VarInt::from_u32(limits::QUIC_CONNECTION_WINDOW))
        .send_window(limits::QUIC_SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(limits::QUIC_IDLE.try_into().ok())
        .keep_alive_interval(Some(limits::QUIC_KEEP_ALIVE));
    match role {
        Role::Dialled(Purpose::Link) => {
            config
                .max_concurrent_bidi_streams(VarInt::from_u32(0))
                .keep_alive_interval(Some(limits::QUIC_LINK_KEEP_ALIVE));
            for_datagrams(&mut config);
        }
        // Who dialled keeps the connection alive, and says by its own limit how long silence may
        // last.
        Role::Accepted { links: true } => {
            config.keep_alive_interval(None);
            for_datagrams(&mut config);
        }
        Role::Dtl => for_programs(&mut config),
        Role::Dialled(Purpose::Streams | Purpose::Dtl) | Role::Accepted { links: false } => {
            config
                .datagram_receive_buffer_size(Some(limits::QUIC_STREAM_DATAGRAMS))
                .datagram_send_buffer_size(limits::QUIC_STREAM_DATAGRAMS);
        }
    }
    if largest.is_none() {
        // The link below has its own probes, and each message may cost a mail.
        config
            .max_idle_timeout(limits::QUIC_MESSAGE_IDLE.try_into().ok())
            .keep_alive_interval(None)
            .datagram_receive_buffer_size(None);
    }
    Arc::new(config)
}

fn for_datagrams(config: &mut TransportConfig) {
    config
        .datagram_receive_buffer_size(Some(limits::QUIC_LINK_RECEIVE))
        .datagram_send_buffer_size(limits::QUIC_LINK_SEND)
        .max_idle_timeout(limits::QUIC_LINK_IDLE.try_into().ok());
}

/// More streams than members need, and a word to each other about their addresses, which those
/// behind NAT cannot know by themselves.
fn for_programs(config: &mut TransportConfig) {
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(limits::DTL_STREAMS))
        .receive_window(VarInt::from_u32(limits::DTL_CONNECTION_WINDOW))
        .datagram_receive_buffer_size(Some(limits::QUIC_CLOCK_QUEUE))
        .datagram_send_buffer_size(limits::QUIC_CLOCK_QUEUE)
        .send_observed_address_reports(true)
        .receive_observed_address_reports(true);
}

/// Takes from an accepted connection what messages do not need.
pub(super) fn link_only(connection: &noq::Connection) {
    connection.set_max_concurrent_bi_streams(VarInt::from_u32(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_payload_is_what_the_interface_takes() {
        for loopback in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, 9)),
        ] {
            // Loopback takes 64 KiB, where there is one of that family.
            let payload = largest_payload(loopback);
            assert!(
                [limits::QUIC_PAYLOAD, limits::QUIC_PAYLOAD_UNKNOWN].contains(&payload),
                "{payload}"
            );
        }
        // No route goes there.
        let nowhere = SocketAddr::from((Ipv4Addr::new(255, 255, 255, 255), 9));
        assert_eq!(largest_payload(nowhere), limits::QUIC_PAYLOAD_UNKNOWN);
    }
}
