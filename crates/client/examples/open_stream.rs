//! Connects the input and the output with a service of a member: `open_stream PEER SERVICE`.

use std::os::fd::AsFd as _;

use ringway_client::Client;
use tokio::fs::File;
use tokio::io::{AsyncWriteExt as _, copy, split};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [peer, service] = arguments("open_stream PEER SERVICE")?;
    let client = Client::connect_usual().await?;
    let stream = client.open(&peer, &service).await?;
    stream.set_priority(8.0).await?;
    let (mut reading, mut writing) = split(stream);
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    let output = std::io::stdout().as_fd().try_clone_to_owned()?;
    let mut output = File::from_std(output.into());
    let sends = async {
        copy(&mut File::from_std(input.into()), &mut writing).await?;
        writing.shutdown().await
    };
    tokio::try_join!(sends, copy(&mut reading, &mut output))?;
    output.flush().await?;
    Ok(())
}

/// The words behind the program's name.
fn arguments<const N: usize>(usage: &str) -> Result<[String; N], String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.try_into().map_err(|_| format!("usage: {usage}"))
}
