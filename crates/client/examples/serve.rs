//! Offers a service to all members that sends back what it gets: `serve NAME`.

#![allow(
    clippy::print_stdout,
    reason = "an example for people, which prints what it does"
)]

use ringway_client::Client;
use tokio::io::{AsyncWriteExt as _, copy, split};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [name] = arguments("serve NAME")?;
    let client = Client::connect_usual().await?;
    let mut listener = client.serve(&name, &["*"]).await?;
    println!("{name} of {} waits", client.name());
    loop {
        let (stream, peer) = listener.accept().await?;
        println!("{peer} has come");
        tokio::spawn(async move {
            let (mut reading, mut writing) = split(stream);
            copy(&mut reading, &mut writing).await?;
            writing.shutdown().await
        });
    }
}

/// The words behind the program's name.
fn arguments<const N: usize>(usage: &str) -> Result<[String; N], String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.try_into().map_err(|_| format!("usage: {usage}"))
}
