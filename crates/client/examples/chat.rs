//! Sends each line of the input to a member as a message, and prints what members write:
//! `chat PEER`.

#![allow(
    clippy::print_stdout,
    reason = "an example for people, which prints what it does"
)]

use std::os::fd::AsFd as _;

use ringway_client::Client;
use ringway_client::text::printable;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [peer] = arguments("chat PEER")?;
    let client = Client::connect_usual().await?;
    let mut received = client.messages(None).await?;
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut lines = BufReader::new(File::from_std(input.into())).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) => drop(client.message(&[&peer], line).await?),
                None => return Ok(()),
            },
            message = received.next() => {
                let message = message?;
                let body = String::from_utf8_lossy(&message.body);
                println!("{}: {}", message.peer, printable(&body, 1000));
                received.mark_read(&message).await?;
            }
        }
    }
}

/// The words behind the program's name.
fn arguments<const N: usize>(usage: &str) -> Result<[String; N], String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.try_into().map_err(|_| format!("usage: {usage}"))
}
