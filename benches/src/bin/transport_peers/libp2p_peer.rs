//! libp2p: request-response with a codec of its own between two swarms, over QUIC, or over TCP with
//! Noise and Yamux.

use std::io;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use futures_util::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, StreamExt as _};
use libp2p::core::upgrade::Version;
use libp2p::multiaddr::Protocol;
use libp2p::request_response::{self, Codec, Message, ProtocolSupport};
use libp2p::swarm::{Config as SwarmConfig, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder, noise, tcp, yamux};

use crate::Failure;
use crate::ends::{Counted, Here, Progress, There, both};
use crate::measure::{Begun, Kind, Measured, Work};

/// Requests that wait for their response at the same time. From 100 to 250 makes little difference;
/// both QUIC's configuration and Yamux stop at 256 streams.
const OUTSTANDING: usize = 200;

/// Streams that may be open or being negotiated: those of all outstanding requests, and of answered
/// ones that are not closed yet.
const STREAMS: usize = 4 * OUTSTANDING;

/// Time for one request; far above what any takes.
const REQUEST_TIME: Duration = Duration::from_secs(60);

/// What lies below the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Quic,
    Tcp,
}

/// The first byte of requests that are answered by themselves.
const ANSWERED: u8 = b'?';
/// The first byte of requests that are counted.
const COUNTED: u8 = b'.';

type Behaviour = request_response::Behaviour<Raw>;
type Event = request_response::Event<Vec<u8>, Vec<u8>>;
type Address = (PeerId, Multiaddr);

/// Messages as requests and responses.
pub(crate) fn requests(over: Over, work: Work) -> Result<Measured, Failure> {
    both(
        async move |there| respond(over, work, there).await,
        async move |here| request(over, work, here).await,
    )
}

fn swarm(over: Over, size: usize) -> Result<Swarm<Behaviour>, Failure> {
    let behaviour = move || {
        let config = request_response::Config::default()
            .with_request_timeout(REQUEST_TIME)
            .with_max_concurrent_streams(STREAMS);
        let protocol = (
            StreamProtocol::new("/ringway-bench/1"),
            ProtocolSupport::Full,
        );
        Behaviour::with_codec(Raw { size }, [protocol], config)
    };
    let config = |config: SwarmConfig| {
        config
            .with_substream_upgrade_protocol_override(Version::V1Lazy)
            .with_max_negotiating_inbound_streams(STREAMS)
            .with_notify_handler_buffer_size(NonZeroUsize::MIN.saturating_add(OUTSTANDING))
            .with_per_connection_event_buffer_size(OUTSTANDING)
            .with_idle_connection_timeout(REQUEST_TIME)
    };
    let builder = SwarmBuilder::with_new_identity().with_tokio();
    let swarm = match over {
        Over::Quic => builder
            .with_quic()
            .with_behaviour(|_| behaviour())?
            .with_swarm_config(config)
            .build(),
        Over::Tcp => builder
            .with_tcp(
                tcp::Config::default(),
                noise::Config::new,
                yamux::Config::default,
            )?
            .with_behaviour(|_| behaviour())?
            .with_swarm_config(config)
            .build(),
    };
    Ok(swarm)
}

/// The end that answers: listens, sends back the messages of a sequence, counts those of a burst.
async fn respond(over: Over, work: Work, mut there: There<Address>) -> Result<(), Failure> {
    let mut swarm = swarm(over, work.size)?;
    let listen = match over {
        Over::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
        Over::Tcp => "/ip4/127.0.0.1/tcp/0",
    };
    swarm.listen_on(listen.parse()?)?;
    let mut received = 0;
    loop {
        match swarm.select_next_some().await {
            SwarmEvent::NewListenAddr { address, .. } => {
                there.say((*swarm.local_peer_id(), address));
            }
            SwarmEvent::Behaviour(Event::Message {
                message:
                    Message::Request {
                        request, channel, ..
                    },
                ..
            }) => {
                let counted = request.first() == Some(&COUNTED);
                let response = if counted { Vec::new() } else { request };
                let sent = swarm.behaviour_mut().send_response(channel, response);
                sent.map_err(|_| "a response came too late")?;
                there.progress.step();
                received += u32::from(counted);
                if counted && received == work.count {
                    let last = Instant::now();
                    there.counted.send(Counted { received, last })?;
                }
            }
            other => failed(&other)?,
        }
    }
}

/// The end that asks: warms up, works, measures.
async fn request(over: Over, work: Work, mut here: Here<Address>) -> Result<Measured, Failure> {
    let (peer, address) = here.address.clone();
    let mut requests = Requests {
        swarm: swarm(over, work.size)?,
        peer,
        progress: here.progress.clone(),
    };
    requests.connect(address).await?;
    let message = vec![ANSWERED; work.size];
    requests.all(&message, work.warm_up() / 2, 1).await?;
    let begun = Begun::now();
    match work.kind {
        Kind::Sequential => {
            requests.all(&message, work.count / 2, 1).await?;
            Ok(begun.end(work.count, work.count / 2 * 2, Instant::now()))
        }
        Kind::Burst => {
            let message = vec![COUNTED; work.size];
            requests.all(&message, work.count, OUTSTANDING).await?;
            let counted = here.counted().await?;
            Ok(begun.end(work.count, counted.received, counted.last))
        }
    }
}

struct Requests {
    swarm: Swarm<Behaviour>,
    peer: PeerId,
    progress: Progress,
}

impl Requests {
    async fn connect(&mut self, address: Multiaddr) -> Result<(), Failure> {
        self.swarm.dial(address.with(Protocol::P2p(self.peer)))?;
        loop {
            match self.swarm.select_next_some().await {
                SwarmEvent::ConnectionEstablished { .. } => return Ok(()),
                other => failed(&other)?,
            }
        }
    }

    /// `count` requests with the same message, `outstanding` of them at a time, until the last is
    /// answered.
    async fn all(&mut self, message: &[u8], count: u32, outstanding: usize) -> Result<(), Failure> {
        let (mut unsent, mut unanswered) = (count, 0);
        while unsent > 0 || unanswered > 0 {
            while unsent > 0 && unanswered < outstanding {
                let behaviour = self.swarm.behaviour_mut();
                behaviour.send_request(&self.peer, message.to_vec());
                (unsent, unanswered) = (unsent - 1, unanswered + 1);
            }
            match self.swarm.select_next_some().await {
                SwarmEvent::Behaviour(Event::Message {
                    message: Message::Response { .. },
                    ..
                }) => {
                    unanswered -= 1;
                    self.progress.step();
                }
                other => failed(&other)?,
            }
        }
        Ok(())
    }
}

/// Events that end the work.
fn failed(event: &SwarmEvent<Event>) -> Result<(), Failure> {
    match event {
        SwarmEvent::Behaviour(Event::OutboundFailure { .. } | Event::InboundFailure { .. })
        | SwarmEvent::ConnectionClosed { .. }
        | SwarmEvent::OutgoingConnectionError { .. }
        | SwarmEvent::IncomingConnectionError { .. }
        | SwarmEvent::ListenerError { .. }
        | SwarmEvent::ListenerClosed { .. } => Err(format!("libp2p: {event:?}").into()),
        _ => Ok(()),
    }
}

/// The bytes of a message and nothing else: it ends with its half of the stream.
#[derive(Clone, Debug)]
struct Raw {
    /// Bytes of the longest message.
    size: usize,
}

impl Raw {
    async fn read<T: AsyncRead + Unpin + Send>(&self, io: &mut T) -> io::Result<Vec<u8>> {
        // One byte more: there the end shows without another allocation, and so does a message that
        // is too long.
        let mut message = Vec::with_capacity(self.size + 1);
        let most = u64::try_from(self.size + 1).map_err(io::Error::other)?;
        io.take(most).read_to_end(&mut message).await?;
        if message.len() > self.size {
            return Err(io::Error::other("a message is longer than those sent"));
        }
        Ok(message)
    }
}

impl Codec for Raw {
    type Protocol = StreamProtocol;
    type Request = Vec<u8>;
    type Response = Vec<u8>;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        self.read(io).await
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        self.read(io).await
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        message: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&message).await
    }

    async fn write_response<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        message: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&message).await
    }
}
