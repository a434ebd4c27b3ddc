//! Starting what carries messages, as the configuration says.

use std::net::SocketAddr;
use std::sync::Arc;

use ringway_transport::{
    ExecOptions, ExecTransport, Incoming, Protocol, SmtpTransport, StartError, TcpOptions,
    TcpTransport, Transport, UdpOptions, UdpTransport, WsOptions, WsTransport,
};
use tokio::sync::mpsc;

use crate::config::{Config, ExecConfig, TransportName, WsConfig};

/// What has been started.
pub(super) struct Started {
    pub(super) transports: Vec<Arc<dyn Transport>>,
    /// Where UDP is bound.
    pub(super) udp_port: Option<u16>,
}

/// Starts them; what arrives goes to `inbox`. A router binds `listen` and tells others `address`.
pub(super) async fn start(
    config: &Config,
    listen: Option<SocketAddr>,
    address: Option<SocketAddr>,
    inbox: mpsc::Sender<Incoming>,
) -> Result<Started, StartError> {
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();
    let mut udp_port = None;
    let uses = |name| config.node.transports.contains(&name);
    let advertise: Vec<SocketAddr> = address.into_iter().collect();
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
