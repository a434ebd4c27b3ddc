//! MSN Messenger (MSNP8): a server that is notification server and switchboard in one, and people
//! who talk there.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{line, strange};

/// Everybody in the one conversation that there is.
type People = Arc<Mutex<HashMap<String, TcpStream>>>;

/// The server. A client that comes in is in one conversation with all others.
#[derive(Debug)]
pub struct Switchboard;

impl Switchboard {
    /// Answers for as long as the test runs.
    pub fn serve(listener: TcpListener) {
        let people = People::default();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let people = Arc::clone(&people);
                // Somebody who goes is heard no more.
                thread::spawn(move || attend(stream, &people).ok());
            }
        });
    }
}

/// Serves one connection to its end.
fn attend(mut stream: TcpStream, people: &People) -> io::Result<()> {
    let mut account = String::new();
    loop {
        let words = line(&mut stream)?;
        let words: Vec<&str> = words.split(' ').collect();
        let (command, number) = (words[0], words.get(1).copied().unwrap_or("0"));
        match command {
            "VER" => say(&mut stream, &format!("VER {number} MSNP8 CVR0"))?,
            "CVR" => say(
                &mut stream,
                &format!(
                    "CVR {number} 6.0.0602 6.0.0602 1.0.0000 http://example.com http://example.com"
                ),
            )?,
            // At the notification server; the passwords were checked elsewhere.
            "USR" if words.get(2) == Some(&"TWN") => {
                let account = words.last().copied().unwrap_or_default();
                say(
                    &mut stream,
                    &format!("USR {number} OK {account} {account} 1"),
                )?;
            }
            "USR" | "ANS" => {
                account = words.get(2).copied().unwrap_or_default().to_owned();
                enter(&mut stream, people, (command, number, &account))?;
            }
            "CAL" => say(&mut stream, &format!("CAL {number} RINGING 11752013"))?,
            "MSG" => {
                let length = words.last().and_then(|length| length.parse().ok());
                let mut payload = vec![0; length.ok_or_else(|| strange("no length"))?];
                stream.read_exact(&mut payload)?;
                let mut people = people.lock().unwrap_or_else(PoisonError::into_inner);
                for (_, other) in people.iter_mut().filter(|(name, _)| **name != account) {
                    let head = format!("MSG {account} {account} {}\r\n", payload.len());
                    other.write_all(&[head.as_bytes(), &payload].concat())?;
                }
                say(&mut stream, &format!("ACK {number}"))?;
            }
            _ => return Ok(()),
        }
    }
}

/// Lets somebody into the conversation: the first waits, later ones are told who is there.
fn enter(
    stream: &mut TcpStream,
    people: &People,
    (command, number, account): (&str, &str, &str),
) -> io::Result<()> {
    let mut people = people.lock().unwrap_or_else(PoisonError::into_inner);
    let others = people.len();
    for (place, (name, other)) in people.iter_mut().enumerate() {
        say(
            stream,
            &format!("IRO {number} {} {others} {name} {name}", place + 1),
        )?;
        // One who was cut off is still in the list.
        say(other, &format!("JOI {account} {account}")).ok();
    }
    say(
        stream,
        &format!("{command} {number} OK {account} {account}"),
    )?;
    people.insert(account.to_owned(), stream.try_clone()?);
    Ok(())
}

fn say(stream: &mut TcpStream, words: &str) -> io::Result<()> {
    stream.write_all(format!("{words}\r\n").as_bytes())
}

/// A file that is offered: where its sender waits, once that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The file's name.
    pub name: String,
    /// Its length in bytes.
    pub size: usize,
    /// Where MSNFTP is spoken.
    pub place: SocketAddrV4,
}

/// Somebody in a conversation.
#[derive(Debug)]
pub struct Chatter {
    stream: TcpStream,
    number: u32,
}

impl Chatter {
    /// Signs in on one connection, and enters the conversation on another.
    ///
    /// # Errors
    /// When a connection is reset or something strange comes.
    pub fn enter(mut sign_in: TcpStream, stream: TcpStream, account: &str) -> io::Result<Chatter> {
        let steps = [
            "VER 1 MSNP8 CVR0".to_owned(),
            format!("CVR 2 0x0409 winnt 5.1 i386 MSNMSGR 6.0.0602 MSMSGS {account}"),
            format!("USR 3 TWN I {account}"),
        ];
        for step in &steps {
            say(&mut sign_in, step)?;
            let answer = line(&mut sign_in)?;
            if answer.get(..5) != step.get(..5) {
                return Err(strange(&answer));
            }
        }
        let mut chatter = Chatter { stream, number: 1 };
        say(
            &mut chatter.stream,
            &format!("USR 1 {account} 17262740.1050826919.32308"),
        )?;
        loop {
            let answer = line(&mut chatter.stream)?;
            match answer.split(' ').next() {
                Some("USR") => return Ok(chatter),
                Some("IRO") => {}
                _ => return Err(strange(&answer)),
            }
        }
    }

    /// Sends a text.
    ///
    /// # Errors
    /// When the connection was reset.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.send(&format!(
            "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=UTF-8\r\n\
             X-MMS-IM-Format: FN=Arial; EF=I; CO=0; CS=0; PF=22\r\n\r\n{text}"
        ))
    }

    /// Offers a file, and says where it can be had: the answer of the other side in between is left
    /// out.
    ///
    /// # Errors
    /// When the connection was reset.
    pub fn offer(&mut self, file: &Invitation) -> io::Result<()> {
        const HEAD: &str =
            "MIME-Version: 1.0\r\nContent-Type: text/x-msmsgsinvite; charset=UTF-8\r\n\r\n";
        self.send(&format!(
            "{HEAD}Application-Name: File Transfer\r\nApplication-GUID: {{5D3E02AB-6190-11d3-BBBB-00C04F795683}}\r\n\
             Invitation-Command: INVITE\r\nInvitation-Cookie: 33267\r\nApplication-File: {}\r\n\
             Application-FileSize: {}\r\nConnectivity: N\r\n\r\n",
            file.name, file.size
        ))?;
        self.send(&format!(
            "{HEAD}Invitation-Command: ACCEPT\r\nInvitation-Cookie: 33267\r\nIP-Address: {}\r\nPort: {}\r\n\
             AuthCookie: 34567\r\nLaunch-Application: FALSE\r\nRequest-Data: IP-Address:\r\n\r\n",
            file.place.ip(),
            file.place.port()
        ))
    }

    fn send(&mut self, payload: &str) -> io::Result<()> {
        self.number += 1;
        let head = format!("MSG {} N {}\r\n", self.number, payload.len());
        self.stream.write_all(format!("{head}{payload}").as_bytes())
    }

    /// Waits no longer than this for what somebody else says.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(time))
    }

    /// What the next message of somebody else carries.
    ///
    /// # Errors
    /// When the connection ends or was reset before one came.
    pub fn read(&mut self) -> io::Result<String> {
        loop {
            let words = line(&mut self.stream)?;
            if let Some(rest) = words.strip_prefix("MSG ") {
                let length = rest
                    .rsplit(' ')
                    .next()
                    .and_then(|length| length.parse().ok());
                let mut payload = vec![0; length.ok_or_else(|| strange("no length"))?];
                self.stream.read_exact(&mut payload)?;
                return Ok(String::from_utf8_lossy(&payload).into_owned());
            }
        }
    }

    /// The next file that is offered, once its place is known.
    ///
    /// # Errors
    /// As [`Chatter::read`], and when something else was said.
    pub fn offered(&mut self) -> io::Result<Invitation> {
        let (invitation, place) = (self.read()?, self.read()?);
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::to_owned).ok_or_else(|| strange(text))
        };
        let number = |text: String| text.parse().map_err(|_| strange(&text));
        let address = field(&place, "IP-Address: ")?;
        let address = address.parse().map_err(|_| strange(&address))?;
        let port = field(&place, "Port: ")?;
        let port = port.parse().map_err(|_| strange(&port))?;
        Ok(Invitation {
            name: field(&invitation, "Application-File: ")?,
            size: number(field(&invitation, "Application-FileSize: ")?)?,
            place: SocketAddrV4::new(address, port),
        })
    }
}
