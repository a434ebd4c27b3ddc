//! Prints one JSON object per flow of the captures given.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for the terminal"
)]

use std::path::Path;

fn main() {
    for name in std::env::args().skip(1) {
        let result = ringway_gateway::classify_file(Path::new(&name), &mut |flow| {
            println!("{}", serde_json::to_string(&flow).unwrap_or_default());
        });
        match result {
            Ok(summary) => eprintln!("{name}: {} flows, {}", summary.flows, summary.counters),
            Err(error) => eprintln!("{error}"),
        }
    }
}
