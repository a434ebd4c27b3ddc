//! Starting what carries messages, as the configuration says.

use std::net::SocketAddr;
use std::sync::Arc;

use ringway_transport::quic::QuicEndpoint;
use ringway_transport::{
    ExecOptions, ExecTransport, Incoming, Protocol, QuicTransport, QuicTransportOptions,
    SmtpTransport, StartError, TcpOptions, TcpTransport, Transport, UdpOptions, UdpTransport,
    WsOptions, WsTransport,
};
use tokio::sync::mpsc;

use crate::config::{Config, ExecConfig, TransportName, WsConfig};

/// Where a member is reached.
pub(super) struct Reachable<'a> {
    /// Where a router binds.
    pub(super) listen: Option<SocketAddr>,
    /// What a router tells others.
    pub(super) address: Option<SocketAddr>,
    /// The endpoint of transfers, whose port messages share.
    pub(super) quic: &'a Arc<QuicEndpoint>,
}

/// What has been started.
pub(super) struct Started {
    pub(super) transports: Vec<Arc<dyn Transport>>,
    /// Where UDP is bound.
    pub(super) udp_port: Option<u16>,
}

/// Starts them; what arrives goes to `inbox`.
pub(super) async fn start(
    config: &Config,
    reachable: &Reachable<'_>,
    inbox: mpsc::Sender<Incoming>,
) -> Result<Started, StartError> {
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();
    let mut udp_port = None;
    let uses = |name| config.node.transports.contains(&name);
    let listen = reachable.listen;
    let advertise: Vec<SocketAddr> = reachable.address.into_iter().collect();
    if uses(TransportName::Udp) {
        let options = UdpOptions {
            listen,
            advertise: advertise.clone(),
            ..UdpOptions::default()
        };
        let udp = UdpTransport::start(options, inbox.clone())?;
        udp_port = Some(udp.local_address().port());
        transports.push(Arc::new(udp));
    }
    if uses(TransportName::Quic) {
        let options = quic(reachable);
        let endpoint = Arc::clone(reachable.quic);
        let started = QuicTransport::start(endpoint, options, inbox.clone())?;
        transports.push(Arc::new(started));
    }
    if uses(TransportName::Tcp) {
        let options = TcpOptions {
            listen,
            advertise,
            ..TcpOptions::default()
        };
        transports.push(Arc::new(TcpTransport::start(options, inbox.clone())?));
    }
    if uses(TransportName::Ws) {
        let options = ws(&config.ws);
        transports.push(Arc::new(WsTransport::start(options, inbox.clone())?));
    }
    for program in &config.exec {
        let started = ExecTransport::start(exec(program), inbox.clone()).await?;
        transports.push(Arc::new(started));
    }
    if config.smtp.is_used() {
        let options = config.smtp.options().map_err(|reason| StartError::Option {
            protocol: Protocol::Smtp,
            reason,
        })?;
        transports.push(Arc::new(SmtpTransport::start(options, inbox)?));
    }
    Ok(Started {
        transports,
        udp_port,
    })
}

/// The address is the certificate's, the port the endpoint's.
fn quic(reachable: &Reachable<'_>) -> QuicTransportOptions {
    let port = reachable.quic.local_address().map(|local| local.port());
    let advertise = match (reachable.address, port) {
        (Some(address), Ok(port)) => vec![SocketAddr::new(address.ip(), port)],
        _ => Vec::new(),
    };
    QuicTransportOptions {
        advertise,
        ..QuicTransportOptions::default()
    }
}

fn ws(config: &WsConfig) -> WsOptions {
    WsOptions {
        listen: config.listen,
        path: config.path.clone(),
        advertise: config.advertise.clone(),
        extra_roots: config.ca_file.clone(),
        ..WsOptions::default()
    }
}

fn exec(config: &ExecConfig) -> ExecOptions {
    let environment = config.environment.iter();
    ExecOptions {
        name: config.name.clone(),
        command: config.command.clone(),
        arguments: config.arguments.iter().map(Into::into).collect(),
        environment: environment
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        ..ExecOptions::default()
    }
}
