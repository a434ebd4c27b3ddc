//! Prints what happens at a member until a transfer has ended: `watch`.

#![allow(
    clippy::print_stdout,
    reason = "an example for people, which prints what it does"
)]

use ringway_client::{Client, Event};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect_usual().await?;
    let mut events = client.events().await?;
    println!("{} of {}", client.name(), client.ring());
    while let Some(event) = events.next().await? {
        match event {
            Event::Transfer(t) => println!("{} {}: {}/{}", t.state, t.file, t.bytes, t.size),
            Event::Message(m) => println!("{}: {}", m.peer, String::from_utf8_lossy(&m.body)),
            _ => {}
        }
    }
    Ok(())
}
