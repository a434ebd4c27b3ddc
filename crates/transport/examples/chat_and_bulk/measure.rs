//! Keystrokes beside bulk: how long each takes there and back.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringway_transport::dtl::{Connection, Endpoint, Key, Priority, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, interval, sleep};

use super::line::{Line, Quality};

/// A home's line.
pub(crate) const LINE: Quality = Quality {
    rate: 10_000_000,
    delay: Duration::from_millis(10),
    queue: Duration::from_millis(200),
};

/// One key in 30 ms: a fast typist with a key held down.
const KEY_EVERY: Duration = Duration::from_millis(30);

/// The first byte of a stream that is to be sent back.
const CHAT: u8 = b'c';
/// The first byte of one that is to be read.
const BULK: u8 = b'b';

type Failure = Box<dyn Error + Send + Sync>;

/// What one part of the measurement gave.
#[derive(Debug)]
pub(crate) struct Part {
    #[allow(dead_code, reason = "only the program prints it")]
    pub(crate) name: &'static str,
    /// Of the keystrokes' delays.
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    /// Bits of bulk a second that arrived.
    pub(crate) bulk: f64,
}

/// Chat alone, beside bulk at priority 0, and beside bulk at chat's own priority, each for so long.
pub(crate) async fn run(each: Duration) -> Result<Vec<Part>, Failure> {
    let key = Key::generate()?;
    let server = Endpoint::bind("127.0.0.1:0".parse()?, &key, Trust::Anyone)?;
    let line = Line::lay(server.local_address()?, LINE).await?;
    let read = Arc::new(AtomicU64::new(0));
    tokio::spawn(serve(server, read.clone()));

    let client = Endpoint::bind("127.0.0.1:0".parse()?, &Key::generate()?, Trust::none())?;
    let urgent = Priority::new(8.0)?;
    let to = key.peer_key();
    let chat = client.connect(line.address(), to, urgent).await?;
    let mut parts = vec![part("chat alone", &chat, &read, each).await?];
    let bulk = client
        .connect(line.address(), to, Priority::SCAVENGER)
        .await?;
    let sending = tokio::spawn(fill(bulk.clone()));
    // Until it has the line.
    sleep(each / 4).await;
    parts.push(part("beside bulk at priority 0", &chat, &read, each).await?);
    bulk.set_priority(urgent); // the same connection goes on
    sleep(each / 4).await;
    parts.push(part("beside bulk at priority 8", &chat, &read, each).await?);
    sending.abort();
    Ok(parts)
}

/// Sends as fast as the line lets it.
async fn fill(bulk: Connection) -> Result<(), Failure> {
    let mut stream = bulk.open(Priority::NORMAL).await?;
    stream.write_all(&[BULK]).await?;
    loop {
        stream.write_all(&[0; 64 * 1024]).await?;
    }
}

/// Types for so long.
async fn part(
    name: &'static str,
    chat: &Connection,
    read: &AtomicU64,
    each: Duration,
) -> Result<Part, Failure> {
    let mut stream = chat.open(Priority::NORMAL).await?;
    stream.write_all(&[CHAT]).await?;
    let (begin, before) = (Instant::now(), read.load(Ordering::Relaxed));
    let (mut key, mut delays) = (interval(KEY_EVERY), Vec::new());
    while begin.elapsed() < each {
        key.tick().await;
        let struck = Instant::now();
        stream.write_all(b"k").await?;
        stream.read_exact(&mut [0]).await?;
        delays.push(struck.elapsed());
    }
    stream.finish().await?;
    delays.sort();
    let bytes = read.load(Ordering::Relaxed) - before;
    Ok(Part {
        name,
        median: delays[delays.len() / 2],
        p99: delays[delays.len() * 99 / 100],
        bulk: bytes as f64 * 8.0 / begin.elapsed().as_secs_f64(),
    })
}

/// The other side.
async fn serve(server: Endpoint, read: Arc<AtomicU64>) -> Result<(), Failure> {
    while let Some(connection) = server.accept().await {
        connection.set_priority(Priority::new(8.0)?); // echoes are chat
        let read = read.clone();
        tokio::spawn(async move {
            while let Ok(stream) = connection.accept().await {
                let (mut reader, mut writer) = stream.into_split();
                if reader.read_u8().await? == CHAT {
                    tokio::io::copy(&mut reader, &mut writer).await?;
                    continue;
                }
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    match reader.read(&mut buffer).await? {
                        0 => break,
                        bytes => read.fetch_add(bytes as u64, Ordering::Relaxed),
                    };
                }
            }
            Ok::<_, Failure>(())
        });
    }
    Ok(())
}
