//! Leaves a record in the ring, and reads it as others do: `records NAME VALUE`.

#![allow(
    clippy::print_stdout,
    reason = "an example for people, which prints what it does"
)]

use std::time::Duration;

use ringway_client::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [name, value] = arguments("records NAME VALUE")?;
    let client = Client::connect_usual().await?;
    let stored = client.put(&name, value.as_bytes(), Duration::from_secs(3600));
    println!("{} routers have it", stored.await?.copies);
    let found = client.get(client.name(), &name).await?;
    let value = found.value.unwrap_or_default();
    println!("{}: {}", found.name, String::from_utf8_lossy(&value));
    Ok(())
}

/// The words behind the program's name.
fn arguments<const N: usize>(usage: &str) -> Result<[String; N], String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.try_into().map_err(|_| format!("usage: {usage}"))
}
