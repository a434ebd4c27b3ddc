//! Other programs, asked with a bound on time and on the length of their answer.

use std::process::Stdio;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::limits::{DOCTOR_OUTPUT, DOCTOR_PROGRAM};

/// Where the programs of administrators are, which are in no other user's search path.
const ADMINISTRATORS: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// What a program has printed.
#[derive(Clone, Debug, Default)]
pub(super) struct Printed {
    /// It has ended with exit code 0.
    pub(super) success: bool,
    /// On stdout, at most [`DOCTOR_OUTPUT`] bytes.
    pub(super) text: String,
}

/// Runs a program to its end; none where it is not there, or takes longer than [`DOCTOR_PROGRAM`].
pub(super) async fn run(program: &str, words: &[&str]) -> Option<Printed> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .args(words)
        .env("PATH", format!("{path}:{ADMINISTRATORS}"))
        // Their words are looked for.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let ended = timeout(DOCTOR_PROGRAM, async {
        let mut bytes = Vec::new();
        let read = stdout.take(DOCTOR_OUTPUT).read_to_end(&mut bytes).await;
        // One that has more to say ends by a pipe without a reader.
        let status = child.wait().await;
        read.and(status).map(|status| (status.success(), bytes))
    });
    let (success, bytes) = ended.await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(Printed { success, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn programs_answer_or_are_missing() {
        let printed = run("sh", &["-c", "echo well; exit 3"]).await.unwrap();
        assert_eq!(printed.text, "well\n");
        assert!(!printed.success);
        assert!(run("no-such-program-here", &[]).await.is_none());
        let long = run("sh", &["-c", "yes"]).await.unwrap();
        assert_eq!(u64::try_from(long.text.len()).unwrap(), DOCTOR_OUTPUT);
    }
}
