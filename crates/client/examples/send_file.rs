//! Sends a file at priority 0 and waits until it is there: `send_file FILE PEER`.
//!
//! `RINGWAY_HOME` names the home folder of the member, if it is not the usual one.

#![allow(
    clippy::print_stdout,
    reason = "an example for people, which prints what it does"
)]

use ringway_client::{Client, SendOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [file, peer] = arguments("send_file FILE PEER")?;
    let client = Client::connect_usual().await?;
    let options = SendOptions {
        priority: 0.0.into(),
        ..SendOptions::default()
    };
    for sent in client.send(&[file], &[peer], &options).await? {
        let ended = client.watch(&sent.id).await?.end().await?;
        println!("{} to {}: {}", ended.file, ended.peer, ended.state);
    }
    Ok(())
}

/// The words behind the program's name.
fn arguments<const N: usize>(usage: &str) -> Result<[String; N], String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.try_into().map_err(|_| format!("usage: {usage}"))
}
