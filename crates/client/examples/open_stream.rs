//! Connects the input and the output with a service of a member: `open_stream PEER SERVICE`.

use ringway_client::Client;
use tokio::io::{AsyncWriteExt as _, copy, split, stdin, stdout};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [peer, service] = arguments("open_stream PEER SERVICE")?;
    let client = Client::connect_usual().await?;
    let stream = client.open(&peer, &service).await?;
    stream.set_priority(8.0).await?;
    let (mut reading, mut writing) = split(stream);
    let sends = async {
        copy(&mut stdin(), &mut writing).await?;
        writing.shutdown().await
    };
    tokio::try_join!(sends, copy(&mut reading, &mut stdout()))?;
    Ok(())
}

/// The words behind the program's name.
fn arguments<const N: usize>(usage: &str) -> Result<[String; N], String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.try_into().map_err(|_| format!("usage: {usage}"))
}
