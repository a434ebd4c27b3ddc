//! Chat at priority 8 and bulk at priority 0 on one line: `chat_and_bulk [SECONDS]`.
//!
//! It lays a line of 10 Mbit/s and 20 ms on loopback, types into a stream that is sent back, and
//! prints how long keystrokes take: alone, beside bulk at priority 0, and after the same bulk was
//! raised to chat's own priority. Try it with `cargo run --example chat_and_bulk -p
//! ringway-transport`.

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

mod line;
mod measure;

use std::error::Error;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse())?;
    let parts = measure::run(Duration::from_secs(seconds)).await?;
    println!(
        "{:<28} {:>7} {:>7} {:>12}",
        "keystrokes", "p50 ms", "p99 ms", "bulk Mbit/s"
    );
    for part in parts {
        let [median, p99] = [part.median, part.p99].map(|time| time.as_secs_f64() * 1e3);
        println!(
            "{:<28} {median:>7.1} {p99:>7.1} {:>12.2}",
            part.name,
            part.bulk / 1e6
        );
    }
    Ok(())
}
