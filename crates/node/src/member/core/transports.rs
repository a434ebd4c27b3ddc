//! Starting what carries messages, as the configuration says.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ringway_transport::quic::QuicEndpoint;
use ringway_transport::{
    ExecOptions, ExecTransport, Incoming, QuicTransport, QuicTransportOptions, SmtpTransport,
    StartError, TcpOptions, TcpTransport, Transport, UdpOptions, UdpTransport, WsOptions,
    WsTransport,
};
use tokio::sync::mpsc;

use super::network::NetworkError;
use crate::certificate::Certificate;
use crate::config::{Config, ConfigError, ExecConfig, TransportName, Wrong, WsConfig};
use crate::machine::is_foreign;

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
) -> Result<Started, NetworkError> {
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
        let options = ws(config);
        let started = WsTransport::start(options, inbox.clone());
        let started = started.map_err(|error| refused(config, error, ws_key))?;
        transports.push(Arc::new(started));
    }
    start_programs(config, &inbox, &mut transports).await?;
    if config.smtp.is_used() {
        let options = config.smtp.options();
        let options = options.map_err(|wrong| config.refuse(wrong))?;
        let started = SmtpTransport::start(options, inbox);
        let started =
            started.map_err(|error| refused(config, error, |error| smtp_key(config, error)))?;
        transports.push(Arc::new(started));
    }
    Ok(Started {
        transports,
        udp_port,
    })
}

/// Starts the programs of `[[exec]]`, unless this member hides where it is: what a program shows is
/// unknown.
async fn start_programs(
    config: &Config,
    inbox: &mpsc::Sender<Incoming>,
    transports: &mut Vec<Arc<dyn Transport>>,
) -> Result<(), NetworkError> {
    if config.node.hide_address {
        if !config.exec.is_empty() {
            tracing::warn!("the programs of [[exec]] are not started: this leaf hides its address");
        }
        return Ok(());
    }
    for (index, program) in config.exec.iter().enumerate() {
        let started = ExecTransport::start(exec(program), inbox.clone()).await;
        let started =
            started.map_err(|error| refused(config, error, |_| format!("exec.{index}.command")))?;
        transports.push(Arc::new(started));
    }
    Ok(())
}

/// Where a member listens, apart from what only its leaves' connections need.
pub(crate) fn listens_at(config: &Config, own: &Certificate) -> Vec<SocketAddr> {
    let listen = own.address().map(|own| config.node.listen.unwrap_or(own));
    let addresses = [listen, listen.and(config.node.quic)];
    addresses.into_iter().flatten().collect()
}

/// Refuses addresses to listen at that are not this machine's.
pub(super) fn check_listen(config: &Config, listen: Option<SocketAddr>) -> Result<(), ConfigError> {
    // Leaves listen nowhere in particular.
    let Some(listen) = listen else {
        return Ok(());
    };
    let mend = "name one that is, or 0.0.0.0 for all of them";
    if is_foreign(&listen) {
        let ip = listen.ip();
        let moved = "if the machine has another address now, `ringway ring move NAME ADDR:PORT` on the owner's machine gives this router a certificate for that, which it takes at its next start";
        let reason = match config.node.listen {
            Some(_) => format!("{ip} is no address of this machine: {mend}; {moved}"),
            None => format!(
                "{ip}, in this router's certificate, is no address of this machine; {moved}; behind a port forward write where \
                 to listen, such as `listen = \"0.0.0.0:{}\"`",
                listen.port()
            ),
        };
        return Err(config.refuse(Wrong::new("node.listen", reason)));
    }
    match config.node.quic.filter(is_foreign) {
        Some(quic) => {
            let reason = format!("{} is no address of this machine: {mend}", quic.ip());
            Err(config.refuse(Wrong::new("node.quic", reason)))
        }
        None => Ok(()),
    }
}

/// The configuration's error, if the value of a key is why a transport did not start. What another
/// program holds may be free another time.
fn refused(
    config: &Config,
    error: StartError,
    key: impl FnOnce(&StartError) -> String,
) -> NetworkError {
    if matches!(&error, StartError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
    {
        return error.into();
    }
    let key = key(&error);
    config.refuse(Wrong::new(key, error.to_string())).into()
}

fn ws_key(error: &StartError) -> String {
    let key = match error {
        StartError::Listen { .. } => "ws.listen",
        StartError::File { .. } => "ws.ca_file",
        _ => "ws.path",
    };
    key.to_owned()
}

fn smtp_key(config: &Config, error: &StartError) -> String {
    match error {
        StartError::Listen { .. } => "smtp.lmtp_tcp".to_owned(),
        StartError::File { path, .. } => config.smtp.key_of(path),
        _ => "smtp".to_owned(),
    }
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

/// A hidden leaf dials its parents and answers no other member.
fn ws(config: &Config) -> WsOptions {
    let is_hidden = config.node.hide_address;
    let config: &WsConfig = &config.ws;
    if is_hidden && config.listen.is_some() {
        tracing::warn!("nothing listens at ws.listen: this leaf hides its address");
    }
    WsOptions {
        listen: config.listen.filter(|_| !is_hidden),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses of other machines are refused by their key.
    #[test]
    fn foreign_listen_addresses_name_their_key() {
        let home = tempfile::tempdir().unwrap();
        let refused = |text: &str, listen: &str| {
            std::fs::write(crate::home::config_path(home.path()), text).unwrap();
            let config = Config::load(home.path()).unwrap();
            let checked = check_listen(&config, Some(listen.parse().unwrap()));
            checked.map_err(|error| error.to_string())
        };
        let own = refused("[node]\n", "127.0.0.1:4000");
        assert_eq!(own, Ok(()));
        assert_eq!(refused("[node]\n", "0.0.0.0:4000"), Ok(()));
        for (text, words) in [
            (
                "[node]\n",
                ["line 1: ", "certificate", "listen = \"0.0.0.0:4000\""],
            ),
            (
                "[node]\nlisten = \"192.0.2.9:4000\"\n",
                ["line 2: ", "node.listen: ", "0.0.0.0"],
            ),
        ] {
            let message = refused(text, "192.0.2.9:4000").unwrap_err();
            let named = words.iter().all(|word| message.contains(word));
            assert!(named, "{message}");
        }
    }
}
