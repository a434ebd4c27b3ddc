//! Several queues: which of them gets a flow is chance, and decides nothing.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::beside::{Tested, wrong};
use super::border::{Border, DEADLINE, SERVER};
use super::both::GatePath;
use super::web::take;
use crate::random_bytes;

const NO_FILES: &str = "[[rule]]\nname = \"files\"\napp = \"dcc\"\naction = \"block\"\n";
const FILE: usize = 100_000;

/// Of the server, beside the one at which it is talked: each falls into any of the queues.
fn addresses() -> Vec<Ipv4Addr> {
    (50..58).map(|last| [198, 51, 100, last].into()).collect()
}

/// Welcomes one client of IRC, and offers it a file at port 5000 of each address.
fn chat(border: &Border) -> Tested {
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, 6667)))??;
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.next().unwrap().unwrap();
        let offers = addresses().into_iter().map(|address| {
            let number = u32::from(address);
            format!(":bert!b@h PRIVMSG anna :\x01DCC SEND song.ogg {number} 5000 {FILE}\x01\r\n")
        });
        let offers: String = offers.collect();
        let said = format!(":irc.example 001 anna :Welcome\r\n{offers}PING :done\r\n");
        stream.write_all(said.as_bytes()).unwrap();
        // Until the client goes.
        lines.for_each(drop);
    });
    Ok(())
}

/// Sends a file to each client that connects.
fn files(border: &Border) -> Tested {
    let listener = border
        .server
        .enter(|| TcpListener::bind(("0.0.0.0", 5000)))??;
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A client that is blocked breaks it off.
            thread::spawn(move || stream.write_all(&random_bytes("song", FILE)).ok());
        }
    });
    Ok(())
}

/// Bytes of the file that come from each address.
fn fetched(border: &Border) -> Tested<Vec<usize>> {
    let each = addresses().into_iter().map(|address| -> Tested<usize> {
        let called = border
            .client
            .enter(|| TcpStream::connect((address, 5000)))?;
        match called {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(DEADLINE))?;
                Ok(take(&mut stream, FILE))
            }
            // The server speaks first: it may be broken off before the call returns.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(0),
            Err(error) => Err(error.into()),
        }
    });
    each.collect()
}

#[test]
fn announced_files_are_known_in_any_queue() -> Tested {
    for path in [GatePath::User, GatePath::Kernel] {
        let Some(mut border) = Border::on("announcements and queues", path) else {
            continue;
        };
        border.with_addresses(&addresses());
        border.up(NO_FILES, &["--enforce", "--queues", "4"]);
        chat(&border)?;
        files(&border)?;
        let before = fetched(&border)?;
        let server: SocketAddr = format!("{SERVER}:6667").parse()?;
        let mut talk = border.client.enter(|| TcpStream::connect(server))??;
        talk.set_read_timeout(Some(DEADLINE))?;
        talk.write_all(b"NICK anna\r\nUSER anna 0 * :Anna\r\n")?;
        let lines = BufReader::new(talk.try_clone()?).lines();
        let told = lines.map_while(Result::ok);
        let told = told.take_while(|line| !line.starts_with("PING")).count();
        let after = fetched(&border)?;
        let all = before.iter().all(|bytes| *bytes == FILE);
        let none = after.iter().all(|bytes| *bytes == 0);
        if !(all && none && told == 1 + addresses().len()) {
            return wrong(format!(
                "{path:?}: {told} lines, then {after:?} bytes, before {before:?}"
            ));
        }
    }
    Ok(())
}
