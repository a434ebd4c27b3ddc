//! What can go wrong with the data, the spec or the page.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why there is no page, or why no run was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReportError {
    /// A file or folder cannot be read or written.
    File {
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// A line of a file is not what it should be.
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The page is not what the data give.
    Differs {
        /// The page.
        path: PathBuf,
        /// The first line that differs, from 1 on.
        line: usize,
        /// Lines of the page (`-`) and of the data (`+`).
        lines: Vec<String>,
    },
}

impl ReportError {
    /// A file or folder cannot be used.
    pub(super) fn file(path: &Path, why: impl fmt::Display) -> ReportError {
        ReportError::File {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }

    /// A line cannot be used.
    pub(super) fn line(path: &Path, line: usize, why: impl fmt::Display) -> ReportError {
        ReportError::Line {
            path: path.to_owned(),
            line,
            why: why.to_string(),
        }
    }
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::File { path, why } => write!(f, "{}: {why}", path.display()),
            ReportError::Line { path, line, why } => {
                write!(f, "{}:{line}: {why}", path.display())
            }
            ReportError::Differs { path, line, lines } => {
                let path = path.display();
                write!(f, "{path}:{line}: the page is not what the runs give")?;
                for line in lines {
                    write!(f, "\n{line}")?;
                }
                write!(f, "\nwrite it with `ringway-bench report`")
            }
        }
    }
}

impl Error for ReportError {}
