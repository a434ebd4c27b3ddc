//! The Noise channel of an enrolment: messages with a two-byte length in front, over TCP.

use std::io;

use ringway_transport::MemberId;
use snow::{HandshakeState, TransportState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use super::known::Exchange;
use super::pake::{Agreed, Hello, Newcomer, Offer, Refusal};
use super::{Bring, BringAnswer};
use crate::identity::{Identity, noise_public};
use crate::invite::SpokenInvite;
use crate::noise;

/// With a long invite, which names the ring's key.
const LONG: &str = "Noise_IKpsk2_25519_AESGCM_SHA256";
const LONG_PROLOGUE: &[u8] = b"ringway enrolment 1";
/// After SPAKE2. The member shows first that it has the key, so that the authority learns of every
/// wrong one.
const SPOKEN: &str = "Noise_IKpsk0_25519_AESGCM_SHA256";
/// Of a member that wants another key, or a new certificate. Both sides have keys that the other
/// knows, so there is no shared secret.
const KNOWN: &str = "Noise_IK_25519_AESGCM_SHA256";
/// What begins the frame of a member that brings a statement.
const BRING_PROLOGUE: &[u8] = b"ringway statement 1";
/// Noise §3: no message is longer.
const MESSAGE: usize = 65_535;

/// Why the channel failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the handshake or a message did not verify")]
    Noise(#[from] snow::Error),
    #[error("a message is malformed")]
    Malformed,
    #[error("the ring's identity is not a usable key")]
    BadKey,
    #[error("the invite is refused: {0}")]
    Refused(Refusal),
}

/// A channel after the handshake.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
    noise: TransportState,
}

/// The member's side of the handshake.
pub(super) async fn connect(
    stream: TcpStream,
    identity: &Identity,
    ring: &MemberId,
    invite: &[u8; 8],
    psk: &[u8; 32],
) -> Result<Channel, ChannelError> {
    let remote = noise_public(ring).ok_or(ChannelError::BadKey)?;
    let secret = identity.noise_secret();
    let noise = noise::builder(LONG)?
        .prologue(LONG_PROLOGUE)?
        .local_private_key(secret.as_ref())?
        .remote_public_key(&remote)?
        .psk(2, psk)?
        .build_initiator()?;
    let mut handshake = Handshake { stream, noise };
    handshake.write(invite).await?;
    let answer = read_frame(&mut handshake.stream).await?;
    refused(&answer)?;
    handshake.open(&answer)?;
    handshake.finish()
}

/// The member's side with a spoken invite: also whose authority it is, which counts from here on.
pub(super) async fn connect_spoken(
    mut stream: TcpStream,
    identity: &Identity,
    invite: &SpokenInvite,
) -> Result<(Offer, Channel), ChannelError> {
    let newcomer = Newcomer::start(invite).ok_or(ChannelError::Malformed)?;
    write_frame(&mut stream, &newcomer.hello).await?;
    let answer = read_frame(&mut stream).await?;
    refused(&answer)?;
    let (offer, agreed) = newcomer.finish(&answer).ok_or(ChannelError::Malformed)?;
    let remote = noise_public(&offer.ring).ok_or(ChannelError::BadKey)?;
    let secret = identity.noise_secret();
    let noise = noise::builder(SPOKEN)?
        .prologue(&agreed.prologue)?
        .local_private_key(secret.as_ref())?
        .remote_public_key(&remote)?
        .psk(0, &agreed.key)?
        .build_initiator()?;
    let mut handshake = Handshake { stream, noise };
    handshake.write(&[]).await?;
    let answer = read_frame(&mut handshake.stream).await?;
    refused(&answer)?;
    handshake.open(&answer)?;
    Ok((offer, handshake.finish()?))
}

/// The side of a member that the authority knows; it shows the key that it has.
pub(super) async fn connect_known(
    stream: TcpStream,
    identity: &Identity,
    ring: &MemberId,
    exchange: Exchange,
) -> Result<Channel, ChannelError> {
    let prologue = exchange.prologue();
    let remote = noise_public(ring).ok_or(ChannelError::BadKey)?;
    let secret = identity.noise_secret();
    let noise = noise::builder(KNOWN)?
        .prologue(prologue)?
        .local_private_key(secret.as_ref())?
        .remote_public_key(&remote)?
        .build_initiator()?;
    let mut handshake = Handshake { stream, noise };
    let mut message = vec![0; MESSAGE];
    let length = handshake.noise.write_message(&[], &mut message)?;
    message.truncate(length);
    let first = [prologue, &message].concat();
    write_frame(&mut handshake.stream, &first).await?;
    handshake.read().await?;
    handshake.finish()
}

/// The authority's side of that: also the X25519 key that has been used. A peer without that key
/// gets no further than the next message.
pub(super) async fn accept_known(
    stream: TcpStream,
    secret: Zeroizing<[u8; 32]>,
    first: &[u8],
    exchange: Exchange,
) -> Result<([u8; 32], Channel), ChannelError> {
    let noise = noise::builder(KNOWN)?
        .prologue(exchange.prologue())?
        .local_private_key(secret.as_ref())?
        .build_responder()?;
    let mut handshake = Handshake { stream, noise };
    handshake.open(first)?;
    let remote = handshake.noise.get_remote_static();
    let remote = remote.and_then(|remote| remote.try_into().ok());
    let remote = remote.ok_or(ChannelError::BadKey)?;
    handshake.write(&[]).await?;
    Ok((remote, handshake.finish()?))
}

/// A member brings what is public and signed, in the clear.
pub(super) async fn bring(
    mut stream: TcpStream,
    bring: &Bring,
) -> Result<BringAnswer, ChannelError> {
    let frame = [BRING_PROLOGUE, &crate::cbor::encode(bring)].concat();
    write_frame(&mut stream, &frame).await?;
    let answer = read_frame(&mut stream).await?;
    minicbor::decode(&answer).map_err(|_| ChannelError::Malformed)
}

/// The authority's answer to it.
pub(super) async fn answer_brought(
    stream: &mut TcpStream,
    answer: &BringAnswer,
) -> Result<(), ChannelError> {
    write_frame(stream, &crate::cbor::encode(answer)).await
}

fn refused(frame: &[u8]) -> Result<(), ChannelError> {
    match Refusal::decode(frame) {
        Some(refusal) => Err(ChannelError::Refused(refusal)),
        None => Ok(()),
    }
}

/// The first words of a new member.
pub(super) enum First {
    /// Of one with a spoken invite.
    Hello(Hello),
    /// Of a member that the authority knows: what it wants, and the handshake's first message.
    Known(Exchange, Vec<u8>),
    /// Of one that brings a statement.
    Brought(Bring),
    /// Of one with a long invite, if it is anything.
    Other(Vec<u8>),
}

/// Waits for them.
pub(super) async fn first(stream: &mut TcpStream) -> Result<First, ChannelError> {
    let frame = read_frame(stream).await?;
    // By its prologue it is told from a new member's, which begins with a key.
    for exchange in Exchange::ALL {
        if let Some(message) = frame.strip_prefix(exchange.prologue()) {
            return Ok(First::Known(exchange, message.to_vec()));
        }
    }
    if let Some(brought) = frame.strip_prefix(BRING_PROLOGUE) {
        let brought = minicbor::decode(brought).map_err(|_| ChannelError::Malformed)?;
        return Ok(First::Brought(brought));
    }
    Ok(match Hello::decode(&frame) {
        Some(hello) => First::Hello(hello),
        None => First::Other(frame),
    })
}

/// Tells a member why its invite is not taken.
pub(super) async fn refuse(stream: &mut TcpStream, refusal: Refusal) -> Result<(), ChannelError> {
    write_frame(stream, &refusal.encode()).await
}

/// The authority's side with a spoken invite, after its answer.
pub(super) struct Asking {
    handshake: Handshake,
    shown: Vec<u8>,
}

impl Asking {
    /// Answers the hello, and waits for the member to show that it has the key. It is not looked at
    /// yet.
    pub(super) async fn begin(
        mut stream: TcpStream,
        secret: Zeroizing<[u8; 32]>,
        answer: &[u8],
        agreed: &Agreed,
    ) -> Result<Asking, ChannelError> {
        let noise = noise::builder(SPOKEN)?
            .prologue(&agreed.prologue)?
            .local_private_key(secret.as_ref())?
            .psk(0, &agreed.key)?
            .build_responder()?;
        write_frame(&mut stream, answer).await?;
        let shown = read_frame(&mut stream).await?;
        let handshake = Handshake { stream, noise };
        Ok(Asking { handshake, shown })
    }

    /// Looks at it: the X25519 key that the member has used, or none if it has not the key.
    pub(super) fn look(&mut self) -> Option<[u8; 32]> {
        self.handshake.open(&self.shown).ok()?;
        self.handshake.noise.get_remote_static()?.try_into().ok()
    }

    /// After a good look.
    pub(super) async fn accept(mut self) -> Result<Channel, ChannelError> {
        self.handshake.write(&[]).await?;
        self.handshake.finish()
    }

    /// After a bad one.
    pub(super) async fn refuse(mut self, refusal: Refusal) -> Result<(), ChannelError> {
        refuse(&mut self.handshake.stream, refusal).await
    }
}

/// The authority's side with a long invite: [`Accepting::begin`] learns which invite is meant,
/// [`Accepting::finish`] proves its secret.
pub(super) struct Accepting {
    handshake: Handshake,
    /// Which invite the member names. Not yet proven.
    pub(super) invite: [u8; 8],
}

impl Accepting {
    pub(super) fn begin(
        stream: TcpStream,
        secret: Zeroizing<[u8; 32]>,
        first: &[u8],
    ) -> Result<Accepting, ChannelError> {
        let noise = noise::builder(LONG)?
            .prologue(LONG_PROLOGUE)?
            .local_private_key(secret.as_ref())?
            .build_responder()?;
        let mut handshake = Handshake { stream, noise };
        let payload = handshake.open(first)?;
        let invite = payload.try_into().map_err(|_| ChannelError::Malformed)?;
        Ok(Accepting { handshake, invite })
    }

    /// The X25519 key that the member has used.
    pub(super) fn remote_key(&self) -> Option<[u8; 32]> {
        self.handshake.noise.get_remote_static()?.try_into().ok()
    }

    /// Instead of an answer.
    pub(super) async fn refuse(mut self, refusal: Refusal) -> Result<(), ChannelError> {
        refuse(&mut self.handshake.stream, refusal).await
    }

    pub(super) async fn finish(mut self, psk: &[u8; 32]) -> Result<Channel, ChannelError> {
        self.handshake.noise.set_psk(2, psk)?;
        self.handshake.write(&[]).await?;
        self.handshake.finish()
    }
}

struct Handshake {
    stream: TcpStream,
    noise: HandshakeState,
}

impl Handshake {
    async fn write(&mut self, payload: &[u8]) -> Result<(), ChannelError> {
        let mut message = vec![0; MESSAGE];
        let length = self.noise.write_message(payload, &mut message)?;
        message.truncate(length);
        write_frame(&mut self.stream, &message).await
    }

    async fn read(&mut self) -> Result<Vec<u8>, ChannelError> {
        let message = read_frame(&mut self.stream).await?;
        self.open(&message)
    }

    fn open(&mut self, message: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut payload = vec![0; message.len()];
        let length = self.noise.read_message(message, &mut payload)?;
        payload.truncate(length);
        Ok(payload)
    }

    fn finish(self) -> Result<Channel, ChannelError> {
        let noise = self.noise.into_transport_mode()?;
        let stream = self.stream;
        Ok(Channel { stream, noise })
    }
}

impl Channel {
    pub(super) async fn send<T: minicbor::Encode<()>>(
        &mut self,
        value: &T,
    ) -> Result<(), ChannelError> {
        let plain = crate::cbor::encode(value);
        let mut message = vec![0; MESSAGE];
        let length = self.noise.write_message(&plain, &mut message)?;
        message.truncate(length);
        write_frame(&mut self.stream, &message).await
    }

    pub(super) async fn receive<T: for<'b> minicbor::Decode<'b, ()>>(
        &mut self,
    ) -> Result<T, ChannelError> {
        let message = read_frame(&mut self.stream).await?;
        let mut plain = vec![0; message.len()];
        let length = self.noise.read_message(&message, &mut plain)?;
        plain.truncate(length);
        minicbor::decode(&plain).map_err(|_| ChannelError::Malformed)
    }
}

async fn write_frame(stream: &mut TcpStream, message: &[u8]) -> Result<(), ChannelError> {
    let length = u16::try_from(message.len()).map_err(|_| ChannelError::Malformed)?;
    stream.write_u16(length).await?;
    stream.write_all(message).await?;
    Ok(stream.flush().await?)
}

async fn read_frame(stream: &mut TcpStream) -> Result<Vec<u8>, ChannelError> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}
