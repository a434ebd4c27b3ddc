//! What the programs of this project do at a terminal, the same in `ringway` and `ringway-bench`.
//!
//! | module | does |
//! |---|---|
//! | `arguments` | help, version and mistakes of a command line, as text and exit code |
//! | `output` | results on stdout, as text or JSON; notes and progress on stderr |
//! | `table` | text in columns |
//! | `failure` | why a command failed: one line on stderr, and the exit code |
//! | `blame` | which errors of the crates below are a user's mistakes |
//! | `visible` | names and words of others, made harmless |
//! | `logging` | the log on stderr: its lines, alike ones joined; `limits` bounds it |

mod arguments;
mod blame;
mod failure;
pub mod limits;
mod logging;
mod output;
mod table;
mod visible;

pub use arguments::{explain, with_help};
pub use failure::{Failure, report_line};
pub use logging::{show_counts as show_log_counts, start as start_log};
pub use output::Output;
pub use table::Table;
pub use visible::visible;
