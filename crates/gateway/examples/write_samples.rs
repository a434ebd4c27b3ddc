//! Writes the made captures into the folder given, for other tools to look at.
#![expect(clippy::print_stdout, reason = "it is a program for the terminal")]

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    for path in ringway_gateway::samples::write(Path::new(&folder))? {
        println!("{}", path.display());
    }
    Ok(())
}
