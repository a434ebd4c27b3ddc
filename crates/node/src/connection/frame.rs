//! Frames on a stream: four bytes of length, most significant first, then CBOR: an array of the
//! kind and its fields.

use minicbor::Encode;
use ringway_transport::quic::{ReadExactError, RecvStream, SendStream};

/// Why a frame could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// It is none, or longer than it may be.
    #[error("the peer's message is malformed or too long")]
    Malformed,
    /// The stream ended before it.
    #[error("the connection ended: {0}")]
    Ended(String),
}

/// Reads the bytes of one frame, at most `longest` of them.
pub(crate) async fn read(stream: &mut RecvStream, longest: usize) -> Result<Vec<u8>, FrameError> {
    let ended = |error: ReadExactError| FrameError::Ended(error.to_string());
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.map_err(ended)?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| FrameError::Malformed)?;
    if length > longest {
        return Err(FrameError::Malformed);
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.map_err(ended)?;
    Ok(bytes)
}

/// The bytes of one frame with its length.
pub(crate) fn framed(frame: &impl Encode<()>) -> Vec<u8> {
    let bytes = crate::cbor::encode(frame);
    // What is longer than that is refused by its reader, as is what is cut.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(&bytes);
    framed
}

/// Writes one frame.
pub(crate) async fn write(
    stream: &mut SendStream,
    frame: &impl Encode<()>,
) -> Result<(), FrameError> {
    stream
        .write_all(&framed(frame))
        .await
        .map_err(|error| FrameError::Ended(error.to_string()))
}

/// The kind of a frame, which says whom it is for; none if it is no frame.
pub(crate) fn kind(bytes: &[u8]) -> Option<u32> {
    let mut decoder = minicbor::Decoder::new(bytes);
    decoder.array().ok()?;
    decoder.u32().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Encode)]
    enum Example {
        #[n(31)]
        Some(#[n(0)] u8),
    }

    #[test]
    fn kind_is_the_number_of_the_variant() {
        assert_eq!(kind(&crate::cbor::encode(&Example::Some(1))), Some(31));
        assert_eq!(kind(b""), None);
        assert_eq!(kind(b"\x82"), None);
    }
}
