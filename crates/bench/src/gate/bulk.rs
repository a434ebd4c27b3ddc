//! Connections that only send, of no application that the gateway knows: iperf3.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::border::{Border, SERVER, Side};
use ringway_terminal::Failure;

const PORT: &str = "5201";
/// Seconds at the beginning of a measurement that do not count.
const WARM: u64 = 1;
/// Tries to reach a server that has just been started, and the time between them.
const TRIES: u32 = 30;
const BETWEEN: Duration = Duration::from_millis(100);

/// The server; it ends with this.
#[derive(Debug)]
pub(super) struct Bulk(Child);

impl Bulk {
    /// Starts the server; `None`: iperf3 is not installed.
    pub(super) fn serve(border: &Border) -> Result<Option<Self>, Failure> {
        let version = Command::new("iperf3").arg("--version").output();
        if version.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        // It goes with this program, however that ends.
        let server = border
            .command(Side::Server, "setpriv")
            .args(["--pdeathsig", "KILL", "iperf3", "--server", "--port", PORT])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Some(Self(server.map_err(Failure::failed)?)))
    }

    /// Gbit/s of payload that the client gets over so many connections.
    pub(super) fn measure(
        &self,
        border: &Border,
        connections: usize,
        time: Duration,
    ) -> Result<f64, Failure> {
        let seconds = time.as_secs().max(1).to_string();
        let (connections, warm) = (connections.to_string(), WARM.to_string());
        let mut reason = String::new();
        for _ in 0..TRIES {
            // The papers' servers had what became CUBIC; the system's own may be another one.
            let reported = border
                .command(Side::Client, "iperf3")
                .args(["--client", SERVER, "--port", PORT])
                .args(["--reverse", "--json", "-C", "cubic"])
                .args(["--parallel", &connections, "--time", &seconds])
                .args(["--omit", &warm])
                .output()
                .map_err(Failure::failed)?;
            let reported: Value =
                serde_json::from_slice(&reported.stdout).map_err(Failure::failed)?;
            let rate = reported
                .pointer("/end/sum_received/bits_per_second")
                .and_then(Value::as_f64);
            if let Some(rate) = rate {
                return Ok(rate / 1e9);
            }
            reason = reported
                .get("error")
                .map(Value::to_string)
                .unwrap_or_default();
            std::thread::sleep(BETWEEN);
        }
        Err(Failure::failed(format_args!(
            "iperf3 measured nothing: {reason}"
        )))
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        // It has ended by itself if this fails.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
