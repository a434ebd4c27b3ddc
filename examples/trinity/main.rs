//! Trinity: counts mail by its sender's network, together with the other routers of a ring, and
//! tells Postfix how much has come from there. See `README.md` beside this file.

mod counters;
mod limits;
mod network;
mod policy;
mod request;
mod ring;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use self::counters::Counters;
use self::limits::CONNECTIONS;

/// Counts mail by sender's network, together with a ring's other routers; a policy service for
/// Postfix.
#[derive(Debug, Parser)]
struct Options {
    /// Socket of the daemon of a router, such as /run/ringway/node/control.sock.
    #[arg(long)]
    control: PathBuf,
    /// Where Postfix asks: `check_policy_service inet:127.0.0.1:10040`.
    #[arg(long, default_value = "127.0.0.1:10040")]
    listen: SocketAddr,
    /// How many of the ring's other routers may lie.
    #[arg(long, default_value_t = 4)]
    liars: usize,
    /// Mails from one network in one window past which more are deferred; without it none are.
    #[arg(long)]
    defer: Option<u64>,
    /// Seconds of a window. All routers need the same.
    #[arg(long, default_value_t = 3_600, value_parser = clap::value_parser!(u64).range(60..=86_400))]
    window: u64,
    /// Seconds between two times at which the own counts are left in the ring.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    publish: u64,
    /// Seconds for which what others have counted is remembered.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    cache: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("trinity: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// One line on stderr; where there is none it is lost.
fn report(line: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{line}").ok();
}

async fn run(options: Options) -> Result<(), String> {
    let listener = TcpListener::bind(options.listen).await;
    let listener =
        listener.map_err(|error| format!("cannot listen at {}: {error}", options.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let counters = Arc::new(Counters::new(counters::Settings {
        control: options.control,
        liars: options.liars,
        defer: options.defer,
        window: options.window,
        cache: Duration::from_secs(options.cache),
    }));
    report(&format!("trinity: asked at {address}"));
    tokio::spawn(publish(
        Arc::clone(&counters),
        Duration::from_secs(options.publish),
    ));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return Ok(());
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let counters = Arc::clone(&counters);
                tokio::spawn(async move {
                    serve(stream, &counters).await;
                    drop(place);
                });
            }
            // Too many open files, say: others are served on.
            Err(error) => {
                report(&format!("trinity: a connection was not taken: {error}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Leaves in the ring what was counted here, for ever.
async fn publish(counters: Arc<Counters>, every: Duration) {
    let mut away = false;
    loop {
        tokio::time::sleep(every).await;
        let left = counters.publish().await;
        // Once each, or a ring that is away for a night fills the log.
        match (&left, away) {
            (Err(error), false) => report(&format!("trinity: counts are not left: {error}")),
            (Ok(()), true) => report("trinity: counts are left again"),
            _ => {}
        }
        away = left.is_err();
    }
}

/// Answers one Postfix process until it ends or says what makes no sense.
async fn serve(stream: TcpStream, counters: &Counters) {
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    loop {
        let request = match policy::read(&mut reading).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => return report(&format!("trinity: a request is malformed: {error}")),
        };
        let action = counters.answer(&request).await;
        if policy::write(&mut writing, &action).await.is_err() {
            return;
        }
    }
}
