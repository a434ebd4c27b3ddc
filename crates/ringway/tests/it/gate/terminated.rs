//! Connections that end at the gateway (`terminate`): the same files, the same verdicts, and no
//! client is worse off for it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread::JoinHandle;

use ringway_testbed::Program;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::beside::{SLOW, Tested, comes_at, slowed, until, up_to_shape, without, wrong};
use super::border::{Border, CLIENT, DEADLINE, SERVER, SERVER_V6, file_of};
use super::both::{GatePath, on_each};
use super::files::{fetch, web};
use super::irc;
use super::malware;
use super::scans::SCAN;
use super::web::{get, serve, take};
use crate::random_bytes;

const NOTHING: &str = "[[rule]]\nname = \"none\"\napp = \"bittorrent\"\naction = \"block\"\n";

/// The policy with ports at which connections end.
fn ending(policy: &str) -> String {
    match policy.strip_prefix("[gateway]\n") {
        Some(rest) => format!("[gateway]\nterminate = [80, \"8000-8080\"]\n{rest}"),
        None => format!("[gateway]\nterminate = [80, \"8000-8080\"]\n{policy}"),
    }
}

fn taken(border: &Border) -> u64 {
    border.status()["terminated"]["taken"]
        .as_u64()
        .unwrap_or_default()
}

/// Files of a web server, some of them spoilt; what came of each, and what was written down of it.
fn scanned(test: &str, policy: &str, path: GatePath) -> Tested<Option<(Vec<String>, u64)>> {
    let Some((mut border, _nginx, folder)) = web(test, path)? else {
        return Ok(None);
    };
    let Some(clamd) = malware::scanner()? else {
        return without(test, "clamd").map(|_| None);
    };
    let spoilt = malware::files();
    let mut names = vec!["clean.bin".to_owned(), "film.bin".to_owned()];
    for (number, (_, bytes)) in spoilt.iter().enumerate() {
        let name = format!("spoilt{number}.bin");
        fs::write(folder.path().join(&name), bytes)?;
        names.push(name);
    }
    fs::write(
        folder.path().join("clean.bin"),
        random_bytes("nginx", 300_000),
    )?;
    let socket = clamd.socket();
    border.up(policy, &["--enforce", "--clamd", &socket.to_string_lossy()]);
    let into = tempfile::tempdir()?;
    let mut outcomes = Vec::new();
    for name in &names {
        fs::remove_file(into.path().join("0")).ok();
        let code = fetch(&border, into.path(), &[name]);
        let got = fs::read(into.path().join("0")).unwrap_or_default();
        let whole = got == fs::read(folder.path().join(name))?;
        outcomes.push(format!("{name}: whole {whole}, curl {}", code == Some(0)));
    }
    let events = border.audit_when(|events| {
        names.iter().all(|name| {
            events
                .iter()
                .any(|event| file_of(event)["filename"] == name.as_str())
        })
    });
    for event in &events {
        let info = file_of(event);
        if info.is_object() {
            outcomes.push(format!(
                "{} {} {} {} {} {}",
                event["event_type"],
                event["ringway"]["app"],
                info["filename"],
                info["size"],
                event["ringway"]["found"],
                info["sha256"]
            ));
        }
    }
    outcomes.sort();
    Ok(Some((outcomes, taken(&border))))
}

#[test]
fn scans_and_audit_match_the_packet_path() -> Tested {
    on_each(|path| {
        let test = "files of connections that end here";
        let Some((as_packets, none)) = scanned(test, SCAN, path)? else {
            return Ok(());
        };
        let Some((here, some)) = scanned(test, &ending(SCAN), path)? else {
            return Ok(());
        };
        if here != as_packets {
            return wrong(format!("{here:#?}\nas packets {as_packets:#?}"));
        }
        if none != 0 || some < 3 || as_packets.len() < 6 {
            return wrong(format!("{none} and {some} ended here: {as_packets:#?}"));
        }
        Ok(())
    })
}

#[test]
fn files_come_at_the_rate_of_their_class() -> Tested {
    on_each(|path| {
        let Some((mut border, _nginx, _folder)) =
            web("a class of connections that end here", path)?
        else {
            return Ok(());
        };
        up_to_shape(&mut border, &ending(&slowed("http")));
        let mut curl = border.client.command("curl");
        curl.args(["--silent", "--max-time", "300", "--output", "/dev/null"]);
        let mut curl = curl.arg(format!("http://{SERVER}/film.bin")).spawn()?;
        let outcome = comes_at(SLOW, &border, String::new);
        curl.kill()?;
        curl.wait()?;
        outcome?;
        match taken(&border) {
            1 => Ok(()),
            other => wrong(format!("{other} connections ended here")),
        }
    })
}

/// Answers one connection at the server with who called, and gives back what it heard.
fn listener(border: &Border, at: &str) -> JoinHandle<(SocketAddr, Vec<u8>)> {
    let at: SocketAddr = at.parse().unwrap();
    let listener = border.server.enter(|| TcpListener::bind(at)).unwrap();
    let listener = listener.unwrap();
    std::thread::spawn(move || {
        let (mut stream, caller) = listener.accept().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // It speaks first, as mail servers do.
        stream.write_all(caller.to_string().as_bytes()).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        // The client has ended its half, and hears this all the same.
        stream.write_all(b" goodbye").unwrap();
        (caller, heard)
    })
}

/// What the server says to a client that says nothing: who called, and goodbye.
fn greeted(border: &Border) -> Tested<String> {
    let server = listener(border, &format!("{SERVER}:80"));
    let mut stream = border.client.enter(|| TcpStream::connect((SERVER, 80)))??;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut heard = String::new();
    stream.read_to_string(&mut heard)?;
    server.join().map_err(|_| "the server ended by a fault")?;
    Ok(heard)
}

#[test]
fn client_address_is_kept_and_halves_end_independently() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("addresses of connections that end here", path) else {
            return Ok(());
        };
        border.with_ipv6();
        border.up(&ending(NOTHING), &["--enforce"]);
        for at in [
            format!("{SERVER}:8000"),
            format!("[{SERVER_V6}]:8080"),
            format!("{SERVER}:80"),
        ] {
            let server = listener(&border, &at);
            let at: SocketAddr = at.parse()?;
            let mut stream = border.client.enter(|| TcpStream::connect(at))??;
            stream.set_read_timeout(Some(DEADLINE))?;
            let own = stream.local_addr()?;
            let said = random_bytes("said", 3 << 20);
            stream.write_all(&said)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut heard = String::new();
            stream.read_to_string(&mut heard)?;
            let (caller, bytes) = server.join().map_err(|_| "the server ended by a fault")?;
            if heard != format!("{own} goodbye") || caller != own || bytes != said {
                return wrong(format!(
                    "{own} was {caller}, heard {heard}, {} bytes",
                    bytes.len()
                ));
            }
        }
        let shut = border.client.enter(|| {
            TcpStream::connect((SERVER, 8001)).and_then(|mut stream| stream.read(&mut [0]))
        })?;
        if shut.is_ok() {
            return wrong("a port that is shut answered".to_owned());
        }
        match taken(&border) {
            4 => Ok(()),
            other => wrong(format!("{other} connections ended here")),
        }
    })
}

#[test]
fn a_translating_gateway_translates_them_as_well() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("translated connections that end here", path) else {
            return Ok(());
        };
        border.masquerade()?;
        border.up(&ending(NOTHING), &["--enforce"]);
        let heard = greeted(&border)?;
        if !heard.starts_with("198.51.100.1:") || !heard.ends_with(" goodbye") {
            return wrong(heard);
        }
        Ok(())
    })
}

/// Its own are reset when it is killed.
#[test]
fn earlier_and_later_connections_outlive_the_gateway() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("ends of connections that end here", path) else {
            return Ok(());
        };
        serve(&border, 400 << 20);
        let mut before = get(&border);
        if take(&mut before, 1 << 20) < 1 << 20 {
            return wrong("nothing came without a gateway".to_owned());
        }
        border.up(&ending(NOTHING), &["--enforce"]);
        if take(&mut before, 64 << 20) < 64 << 20 {
            return wrong("a connection ended with the gateway's beginning".to_owned());
        }
        let mut during = get(&border);
        if take(&mut during, 64 << 20) < 64 << 20 || taken(&border) != 1 {
            return wrong(border.status().to_string());
        }
        border.daemon().kill()?;
        // It does not look whole: it is reset.
        let mut rest = Vec::new();
        let Err(_reset) = during.read_to_end(&mut rest) else {
            return wrong(format!("{} more bytes, and an end", rest.len()));
        };
        if take(&mut before, 16 << 20) < 16 << 20 {
            return wrong("a connection from before ended with the gateway".to_owned());
        }
        let mut after = get(&border);
        if take(&mut after, 1 << 20) < 1 << 20 {
            return wrong("nothing new without the gateway".to_owned());
        }
        let down = ["gate", "down", &border.inside, &border.outside];
        let outcome = border.program().run(down)?;
        if outcome.code != Some(0) || !border.traces().is_empty() {
            return wrong(format!("{}{}", outcome.stderr, border.traces()));
        }
        Ok(())
    })
}

#[test]
fn blocked_connection_is_reset_at_both_ends() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("blocked connections that end here", path) else {
            return Ok(());
        };
        let rule = "[[rule]]\nname = \"not-there\"\nserver = \"198.51.100.9\"\nport = 8001\naction = \"block\"\n\
        [[rule]]\nname = \"no-chat\"\napp = \"irc\"\naction = \"block\"\n";
        border.up(&ending(rule), &["--enforce"]);
        let listener = border
            .server
            .enter(|| TcpListener::bind((SERVER, 8000)))??;
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(DEADLINE))?;
            stream.write_all(b":irc.example NOTICE * :*** Looking up your hostname\r\n")?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard)
        });
        let mut stream = border
            .client
            .enter(|| TcpStream::connect((SERVER, 8000)))??;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(b"NICK someone\r\nUSER someone 0 * :Some One\r\n")?;
        let mut heard = Vec::new();
        let ended = stream.read_to_end(&mut heard);
        let served = server.join().map_err(|_| "the server ended by a fault")?;
        if ended.is_ok() || served.is_ok() {
            return wrong(format!("{ended:?} at the client, {served:?} at the server"));
        }
        let refused = border.client.enter(|| {
            TcpStream::connect((SERVER, 8001)).and_then(|mut stream| stream.read(&mut [0]))
        })?;
        if refused.is_ok() {
            return wrong("a blocked server was reached".to_owned());
        }
        border.audit_when(|events| {
            let by = |rule| {
                events.iter().any(|event| {
                    event["ringway"]["rule"] == rule
                        && event["src_ip"] == CLIENT
                        && event["dest_ip"] == SERVER
                })
            };
            by("no-chat") && by("not-there")
        });
        Ok(())
    })
}

/// The file itself is a flow of packets.
#[test]
fn file_announced_in_terminated_conversation_is_known() -> Tested {
    on_each(|path| {
        let policy = format!("[gateway]\nterminate = 6667\n{}", irc::FILES);
        let test = "files announced where connections end here";
        irc::files_by((test, &policy), path, |border| match taken(border) {
            0 => wrong("the conversation did not end here".to_owned()),
            _ => Ok(()),
        })
        .map(drop)
    })
}

/// Asks over this connection for what the server has to say, and hears all of it.
fn asked(mut stream: TcpStream) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: server\r\n\r\n")?;
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard)?;
    Ok(heard)
}

#[test]
fn host_marks_and_routing_settings_break_nothing() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("the host's marks and connections that end here", path)
        else {
            return Ok(());
        };
        for words in [
            "iptables -t mangle -A PREROUTING -j CONNMARK --restore-mark",
            "iptables -t mangle -A PREROUTING -j MARK --set-mark 1",
            "sysctl -qw net.ipv4.conf.all.rp_filter=1",
            "sysctl -qw net.ipv4.conf.all.src_valid_mark=1",
            "sysctl -qw net.ipv4.tcp_fwmark_accept=1",
        ] {
            border
                .gateway
                .check(&words.split(' ').collect::<Vec<_>>())?;
        }
        border.up(&ending(NOTHING), &["--enforce"]);
        let heard = greeted(&border)?;
        match (heard.ends_with(" goodbye"), taken(&border)) {
            (true, 1) => Ok(()),
            other => wrong(format!("{other:?}: {heard}")),
        }
    })
}

#[test]
fn urgent_bytes_stop_nothing() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("urgent bytes of connections that end here", path) else {
            return Ok(());
        };
        border.up(&ending(NOTHING), &["--enforce"]);
        let at: SocketAddr = format!("{SERVER}:8000").parse()?;
        let listener = border.server.enter(|| TcpListener::bind(at))??;
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(DEADLINE))?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).map(|_| heard)
        });
        let mut stream = border.client.enter(|| TcpStream::connect(at))??;
        // So much at once that it goes through a pipe.
        let said = random_bytes("urgent", 1 << 20);
        stream.write_all(&said)?;
        rustix::net::send(&stream, b"!", rustix::net::SendFlags::OOB)?;
        stream.write_all(&said)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let heard = server.join().map_err(|_| "the server ended by a fault")??;
        let expected = [said.as_slice(), said.as_slice()].concat();
        if heard != expected {
            return wrong(format!("{} of {} bytes", heard.len(), expected.len()));
        }
        Ok(())
    })
}

#[test]
fn reconnection_from_same_port_gets_no_old_bytes() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("a port that calls again", path) else {
            return Ok(());
        };
        // It is followed: of what is said twice the first copy counts.
        let files = "[[rule]]\nname = \"no-programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
        [[rule]]\nname = \"all\"\napp = \"http\"\naction = \"audit\"\n";
        border.up(&ending(files), &["--enforce"]);
        let listener = border.server.enter(|| TcpListener::bind((SERVER, 80)))??;
        let (gone, told) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || -> std::io::Result<()> {
            let (mut old, _) = listener.accept()?;
            old.set_read_timeout(Some(DEADLINE))?;
            old.read_exact(&mut [0; 16])?;
            old.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\nOLDOLDOLD")?;
            let (mut new, _) = listener.accept()?;
            let mut new_request = Vec::new();
            // All of it: what is left unread would make its end a reset.
            while !new_request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                new.read_exact(&mut byte)?;
                new_request.extend(byte);
            }
            // The old one is answered to the end, if it is still there.
            let rest = old
                .write_all(&[b'O'; 1_991])
                .and_then(|()| old.read_to_end(&mut Vec::new()));
            gone.send(rest.is_err()).ok();
            new.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnewnewnew")
        });
        let call = || -> std::io::Result<TcpStream> {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::from(([10, 66, 0, 2], 5_000)).into())?;
            socket.connect(&SocketAddr::from(([198, 51, 100, 9], 80)).into())?;
            Ok(socket.into())
        };
        let mut old = border.client.enter(call)??;
        old.write_all(b"GET /a HTTP/1.1\r\nHost: server\r\n\r\n")?;
        old.shutdown(std::net::Shutdown::Write)?;
        old.set_read_timeout(Some(DEADLINE))?;
        old.read_exact(&mut [0; 20])?;
        // Bytes that it has not read make its end a reset.
        drop(old);
        let new = border.client.enter(call)??;
        let heard = asked(new)?;
        server.join().map_err(|_| "the server ended by a fault")??;
        let old_is_gone = told.recv()?;
        if !heard.ends_with(b"newnewnew") || !old_is_gone {
            let heard = String::from_utf8_lossy(&heard).into_owned();
            return wrong(format!("heard {heard}, the old one is gone: {old_is_gone}"));
        }
        Ok(())
    })
}

/// One client opens connections, says nothing, and stays: others are served all the same, and where
/// there is no place left connections go on as packets.
#[test]
fn exhausted_slots_exclude_no_other_client() -> Tested {
    let Some(mut border) = Border::new("places of connections that end here") else {
        return Ok(());
    };
    // A hundred places: six files each, and what the rest of the program takes.
    let limited = border.path("limited");
    let ringway = env!("CARGO_BIN_EXE_ringway");
    fs::write(
        &limited,
        format!("#!/bin/sh\nulimit -n 728\nexec {ringway} \"$@\"\n"),
    )?;
    fs::set_permissions(&limited, fs::Permissions::from_mode(0o700))?;
    let program = Program::new(Path::new(&limited)).on(&border.gateway);
    let interface = border.client_interface.clone();
    let others: Vec<String> = (0..8)
        .map(|last| format!("10.66.0.{}", 20 + last))
        .collect();
    for other in &others {
        let address = format!("{other}/24");
        let add = ["ip", "addr", "add", &address, "dev", &interface];
        border.client.check(&add)?;
    }
    serve(&border, 1_000);
    border.up_by(&program, &ending(NOTHING), &["--enforce"]);
    let server: SocketAddr = format!("{SERVER}:80").parse()?;
    let from = |client: &str| -> Tested<TcpStream> {
        let own: SocketAddr = format!("{client}:0").parse()?;
        let stream = border.client.enter(|| -> std::io::Result<TcpStream> {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            bind(&socket, &own)?;
            connect(&socket, &server)?;
            Ok(TcpStream::from(socket))
        })??;
        Ok(stream)
    };
    let is_served = |client: &str| -> Tested {
        let mut stream = from(client)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n")?;
        let mut got = [0; 500];
        stream.read_exact(&mut got)?;
        Ok(())
    };
    let mut slow = Vec::new();
    for _connection in 0..150 {
        slow.push(from(CLIENT)?);
    }
    let open = |border: &Border| border.status()["terminated"]["open"].as_u64();
    // A quarter of the places.
    if open(&border) > Some(25) {
        return wrong(format!("one client has too much: {}", border.status()));
    }
    is_served(&others[0])?;
    for other in &others {
        for _connection in 0..25 {
            slow.push(from(other)?);
        }
    }
    is_served(&others[0])?;
    is_served(CLIENT)?;
    let full = border.status()["terminated"]["full"].as_u64();
    if full == Some(0) {
        return wrong(format!("there were places: {}", border.status()));
    }
    drop(slow);
    // There are places again.
    let before = taken(&border);
    until("nobody is taken again", String::new, || {
        is_served(CLIENT).is_ok() && taken(&border) > before
    })
}
