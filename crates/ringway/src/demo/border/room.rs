//! The process in namespaces of its own: it lays the border out, has the gateway at work in it, and
//! reports what its client sees.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringway_gateway::linux::namespaces::isolate;
use ringway_terminal::{Failure, Output};

use super::gateway::{self, End, Gateway};
use super::hosts::{Hosts, SERVER};
use super::message::{Class, Files, Said, Shown, Stop, Torrent, Why};
use super::{megabits, requirements, torrent, web};
use crate::context::Context;
use crate::limits::{
    DEMO_BEFORE, DEMO_CLASS_LOOK, DEMO_CLASS_SETTLING, DEMO_CLASS_WINDOW, DEMO_POLL,
    DEMO_RECONNECT, DEMO_RECONNECTS, DEMO_SOCKET,
};

/// Bytes of the torrent.
const TORRENT: usize = 4 << 20;
/// Bytes of the clean file.
const CLEAN: usize = 1 << 20;

/// `ringway demo-border`: with all files in the home folder.
pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let folder = context.home()?;
    let output = context.output;
    let said = match play(&folder, output) {
        Ok(shown) => Said::Shown(Box::new(shown)),
        Err(Stop::Missing(reason)) => Said::Missing { reason },
        Err(Stop::Failed(reason)) => Said::Failed { reason },
    };
    tell(output, &said)
}

fn tell(output: Output, said: &Said) -> Result<(), Failure> {
    output.object("ringway.demo.border/1", said)
}

/// What goes on, for people. Who does not listen any more ends this process by its stdin.
fn now(output: Output, text: String) {
    tell(output, &Said::Now { text }).ok();
}

/// Everything, in its order.
fn play(folder: &Path, output: Output) -> Result<Shown, Stop> {
    isolate().map_err(|refused| Stop::Missing(requirements::explain(&refused)))?;
    let end = End::default();
    end_with_stdin(end.clone());
    requirements::tools()?;
    let hosts = Hosts::lay()?;
    requirements::kernel()?;
    let stage = Stage::open(&hosts, output)?;
    let before = stage.before()?;
    let log = folder.join("gateway.log");
    now(
        output,
        "starting the gateway between client and server".to_owned(),
    );
    let gateway = Gateway::start(folder, &log, &end)?;
    let torrent = stage.torrent(before.torrent)?;
    let files = stage.files(&gateway, before.infected)?;
    let (class, top) = stage.class(&gateway, before.rate)?;
    let why = why(&gateway)?;
    Ok(Shown {
        policy: gateway::POLICY.to_owned(),
        torrent,
        class,
        files,
        why,
        top,
    })
}

/// Ends the gateway and this process when the demo is gone, and all of the border with them.
fn end_with_stdin(end: End) {
    std::thread::spawn(move || {
        // Nothing is written to it; an error is its end as well.
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        end.now();
        std::process::exit(1);
    });
}

/// What the same client got before the gateway was at work.
struct Before {
    torrent: u64,
    infected: u64,
    rate: f64,
}

/// Client and server, the latter with its files.
struct Stage<'a> {
    hosts: &'a Hosts,
    output: Output,
    peer: SocketAddr,
    web: SocketAddr,
    clean: Arc<[u8]>,
}

impl<'a> Stage<'a> {
    /// Starts the servers.
    fn open(hosts: &'a Hosts, output: Output) -> Result<Stage<'a>, Stop> {
        let at = |port: u16| {
            let address = format!("{SERVER}:{port}").parse::<SocketAddr>();
            address.map_err(|error| Stop::Failed(error.to_string()))
        };
        let (peer, web) = (at(torrent::PORT)?, at(web::PORT)?);
        let (shared, clean) = (bytes("torrent", TORRENT), bytes("file", CLEAN));
        let given = Arc::clone(&clean);
        let opened = hosts.server.run(move || {
            let (torrents, pages) = (TcpListener::bind(peer)?, TcpListener::bind(web)?);
            std::thread::spawn(move || torrent::serve(&torrents, &shared));
            std::thread::spawn(move || web::serve(&pages, &given));
            std::io::Result::Ok(())
        })?;
        opened.map_err(|error| Stop::Failed(format!("the demo's servers: {error}")))?;
        Ok(Stage {
            hosts,
            output,
            peer,
            web,
            clean,
        })
    }

    /// All of it without a gateway: or what does not arrive later would show nothing.
    fn before(&self) -> Result<Before, Stop> {
        now(
            self.output,
            "before there is a gateway: everything arrives".to_owned(),
        );
        let torrent = self.fetch_torrent(DEMO_SOCKET)?;
        let infected = self.fetch(web::INFECTED)?;
        let download = self.download(web::UPDATE);
        std::thread::sleep(DEMO_BEFORE);
        let rate = bits(download.arrived(), DEMO_BEFORE);
        if torrent != size(TORRENT) || infected != web::infected() {
            return Err(Stop::Failed(format!(
                "without a gateway {torrent} bytes of {TORRENT} arrived of the torrent, and {} of \
                 the file",
                infected.len()
            )));
        }
        Ok(Before {
            torrent,
            infected: size(infected.len()),
            rate,
        })
    }

    /// The transfer is blocked, and so are its reconnections.
    fn torrent(&self, before: u64) -> Result<Torrent, Stop> {
        now(
            self.output,
            "the client fetches the torrent through the gateway".to_owned(),
        );
        let arrived = self.fetch_torrent(DEMO_SOCKET)?;
        let began = Instant::now();
        let (mut again, mut arrived_again) = (0, 0);
        while began.elapsed() < DEMO_RECONNECTS {
            arrived_again += self.fetch_torrent(DEMO_RECONNECT)?;
            again += 1;
            now(
                self.output,
                format!("blocked; connected again, try {again}: {arrived_again} bytes arrived"),
            );
            std::thread::sleep(DEMO_POLL);
        }
        Ok(Torrent {
            size: size(TORRENT),
            before,
            arrived,
            again,
            arrived_again,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// A clean file arrives, one with EICAR's signature does not.
    fn files(&self, gateway: &Gateway, infected_before: u64) -> Result<Files, Stop> {
        now(
            self.output,
            "the client fetches a clean file, and one with EICAR's signature".into(),
        );
        let clean = self.fetch(web::CLEAN)?;
        let infected = self.fetch(web::INFECTED)?;
        let event = gateway.event_where(gateway::SCANS, |event| {
            event["ringway"]["found"].is_string()
        })?;
        let text = |name: &str| {
            event["ringway"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Files {
            clean: size(CLEAN),
            clean_arrived: *clean == *self.clean,
            infected: size(web::infected().len()),
            infected_before,
            infected_arrived: size(infected.len()),
            found: text("found"),
            rule: text("rule"),
        })
    }

    /// The rate of a download in a class, and what the line carries meanwhile.
    fn class(&self, gateway: &Gateway, before: f64) -> Result<(Class, String), Stop> {
        let name = gateway::CLASS;
        now(
            self.output,
            format!("the client downloads in the class `{name}`"),
        );
        let download = self.download(web::UPDATE);
        // The first of it fills buffers, faster than the class.
        std::thread::sleep(DEMO_CLASS_SETTLING);
        let (began, first) = (Instant::now(), download.arrived());
        let so_far = || bits(download.arrived().saturating_sub(first), began.elapsed());
        while began.elapsed() < DEMO_CLASS_WINDOW {
            std::thread::sleep(DEMO_CLASS_LOOK);
            let (measured, rate) = (megabits(so_far()), megabits(gateway::RATE));
            now(self.output, format!("class `{name}`: {measured} of {rate}"));
        }
        let class = Class {
            name: name.to_owned(),
            rate: gateway::RATE,
            before,
            measured: so_far(),
            seconds: began.elapsed().as_secs_f64(),
        };
        now(
            self.output,
            "`gate top` looks at the line for a second".to_owned(),
        );
        Ok((class, gateway.ask(&["top", "--once"])?))
    }

    fn fetch_torrent(&self, patience: Duration) -> Result<u64, Stop> {
        let peer = self.peer;
        let arrived = self
            .hosts
            .client
            .run(move || torrent::fetch(peer, TORRENT, patience))?;
        // Other bytes than those of the torrent are none of it.
        let same = bytes("torrent", TORRENT).starts_with(&arrived);
        Ok(if same { size(arrived.len()) } else { 0 })
    }

    fn fetch(&self, page: web::Page) -> Result<Vec<u8>, Stop> {
        let web = self.web;
        self.hosts.client.run(move || web::fetch(web, page))
    }

    /// Begins a download; it ends with what is returned.
    fn download(&self, page: web::Page) -> Download {
        let download = Download::default();
        let (web, arrived) = (self.web, Arc::clone(&download.arrived));
        let enough = Arc::clone(&download.enough);
        // It shows in what arrives.
        drop(
            self.hosts
                .client
                .begin(move || web::count(web, page, &arrived, &enough)),
        );
        download
    }
}

/// A download under way.
#[derive(Default)]
struct Download {
    arrived: Arc<AtomicU64>,
    enough: Arc<AtomicBool>,
}

impl Download {
    fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
    }
}

/// What the gateway says of the transfer that it blocked.
fn why(gateway: &Gateway) -> Result<Why, Stop> {
    let event = gateway.event_where(gateway::BLOCKS, |event| event["event_type"] == "alert")?;
    let flow = event["flow_id"].as_u64().unwrap_or_default();
    let text = gateway.ask(&["why", &flow.to_string()])?;
    Ok(Why {
        flow,
        rule: gateway::BLOCKS.to_owned(),
        text,
    })
}

/// Bytes that no compression makes smaller, the same in every run.
fn bytes(seed: &str, size: usize) -> Arc<[u8]> {
    let mut bytes = vec![0; size];
    let mut random = blake3::Hasher::new().update(seed.as_bytes()).finalize_xof();
    random.fill(&mut bytes);
    bytes.into()
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Bits a second; exact below 2^32 bytes, which is more than a few seconds carry.
fn bits(bytes: u64, time: Duration) -> f64 {
    8.0 * f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / time.as_secs_f64()
}
