//! The program `ringway`, which some benchmarks start as its users do.

use std::path::PathBuf;

use ringway_terminal::Failure;

/// The program of the same build: it stands beside this one.
///
/// # Errors
/// It does not; the message says how to build it.
pub(crate) fn ringway() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let program = own.with_file_name("ringway");
    if program.exists() {
        return Ok(program);
    }
    Err(Failure::failed(format_args!(
        "`{}` is not there: build it as this program was built (`cargo build --release --package ringway`)",
        program.display()
    )))
}
