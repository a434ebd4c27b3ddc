//! MSN Messenger (MSNP) on its own port and inside HTTP, and MSNFTP, its file transfer of the first
//! versions.
//!
//! Sources: the Internet draft "MSN Messenger Service 1.0 Protocol" (movva, 1999), and the
//! published notes on MSNP8–18 and MSNFTP (hypothetic.org).

use std::net::{IpAddr, SocketAddr};

use super::http::{Request, header};
use super::http_marks;
use super::message::{Announced, Finding, Memory, Message, is_number, text_lines};

/// Commands that follow the version's.
const COMMANDS: [&str; 22] = [
    "CVR", "USR", "XFR", "ANS", "CAL", "IRO", "JOI", "CHG", "SYN", "ILN", "NLN", "FLN", "RNG",
    "ADC", "ADL", "LST", "CHL", "QRY", "UUX", "UBX", "BYE", "GCF",
];

/// Lines of MSNP: three letters, a transaction's number, fields.
pub(super) fn messenger(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut known = 0_u8;
    for line in text_lines(message.bytes) {
        let mut words = line.split(' ');
        let command = words.next()?;
        match command {
            "VER" => {
                let number = words.next()?;
                let version = words.next()?;
                let is_version = version
                    .strip_prefix("MSNP")
                    .is_some_and(|number| is_number(number, 2));
                if is_number(number, 10) && is_version {
                    memory.listener = Some(invitation);
                    return Some(Finding::certain(format!("VER {number} {version}")));
                }
                return None;
            }
            "MSG" => {
                // MSG, account or number, name or kind, length; then a MIME message of that length.
                let length = line.rsplit(' ').next()?;
                if !is_number(length, 5) || !has_mime(message.bytes) {
                    return None;
                }
                memory.listener = Some(invitation);
                return Some(Finding::certain("MSG with a MIME message"));
            }
            _ if COMMANDS.contains(&command) => known = known.saturating_add(1),
            _ => break,
        }
        let numbered = words.next().is_some_and(|word| is_number(word, 10));
        // An account, which all lines of a switchboard's opening name.
        let account = words.any(|word| word.contains('@'));
        if matches!(command, "USR" | "ANS") && numbered && account {
            memory.listener = Some(invitation);
            return Some(Finding::likely(format!("{command} with an account")));
        }
    }
    (known >= 2).then(|| {
        memory.listener = Some(invitation);
        Finding::likely(format!("{known} commands"))
    })
}

/// The messages that keep a connection: `PNG`, and in answer `QNG` with the seconds until the next.
pub(super) fn keepalive(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    match message.bytes {
        b"PNG\r\n" => Some(Finding::guess("a PNG by itself")),
        bytes => {
            let line = bytes.strip_prefix(b"QNG ")?.strip_suffix(b"\r\n")?;
            let number = std::str::from_utf8(line).ok()?;
            is_number(number, 4).then(|| Finding::likely("a QNG with its seconds"))
        }
    }
}

fn has_mime(bytes: &[u8]) -> bool {
    let mut lines = text_lines(bytes).skip(1);
    lines.next().is_some_and(|line| line == "MIME-Version: 1.0")
}

/// MSNP inside HTTP, for clients behind a proxy: the gateway's path, or the content's type.
pub(super) fn gateway(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).msn {
        return None;
    }
    let request = Request::parse(message.bytes)?;
    let typed = request
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/x-msn-messenger"));
    let path = request.path().ends_with("/gateway/gateway.dll");
    let found = match (typed, path) {
        (true, _) => Finding::certain("a request of the type x-msn-messenger"),
        (false, true) => Finding::likely("a request to gateway.dll"),
        (false, false) => return None,
    };
    Some(found.with_host(request.host()))
}

/// An accepted invitation to a file transfer names the sender's address and port.
fn invitation(payload: &[u8]) -> Option<(usize, Option<Announced>)> {
    let mut start: usize = 0;
    loop {
        let rest = payload.get(start..)?;
        let blank = rest.windows(4).position(|window| window == b"\r\n\r\n")?;
        start = start.checked_add(blank)?.checked_add(4)?;
        // One that has come in part only is none yet.
        if let Some(invited) = invited(payload.get(start..)?) {
            return Some((start, Some(invited)));
        }
    }
}

fn invited(block: &[u8]) -> Option<Announced> {
    let address: IpAddr = header(block, "ip-address")?.parse().ok()?;
    let port: u16 = header(block, "port")?.parse().ok()?;
    (port > 0).then_some(Announced {
        endpoint: SocketAddr::new(address, port),
        application: "msnftp",
        by: "an invitation in MSN Messenger",
    })
}

/// MSNFTP: `VER MSNFTP`; `FIL` with a size; `USR` with an account and a cookie.
pub(super) fn file_transfer(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut user = false;
    for line in text_lines(message.bytes) {
        let mut words = line.split(' ');
        match (words.next()?, words.next()) {
            ("VER", Some(_)) if line.split(' ').any(|word| word == "MSNFTP") => {
                return Some(Finding::certain("VER MSNFTP"));
            }
            ("USR", Some(account)) if account.contains('@') => {
                user = words.next().is_some_and(|cookie| is_number(cookie, 10));
            }
            ("FIL", Some(size)) if is_number(size, 10) && words.next().is_none() => {
                return Some(Finding::likely("FIL with a size"));
            }
            ("TFR", None) if user => return Some(Finding::certain("USR and TFR")),
            _ => return None,
        }
    }
    user.then(|| Finding::likely("USR with an account and a cookie"))
}

#[cfg(test)]
mod tests {
    use super::invitation;

    #[test]
    fn every_invitation_is_found_behind_other_text() {
        let message = |body: &str| format!("MSG a@b c 99\r\nMIME-Version: 1.0\r\n\r\n{body}\r\n");
        let invited = |host: u8| {
            message(&format!(
                "IP-Address: 192.0.2.{host}\r\nPort: 6891\r\nAuthCookie: 7\r\n"
            ))
        };
        let said = [message("Port: x\r\n"), invited(4), invited(5)].concat();
        let mut rest = said.as_bytes();
        let mut found = Vec::new();
        while let Some((end, announced)) = invitation(rest) {
            found.extend(announced.map(|announced| announced.endpoint.to_string()));
            rest = &rest[end..];
        }
        assert_eq!(found, ["192.0.2.4:6891", "192.0.2.5:6891"]);
        // One that has come in part only is none yet.
        assert_eq!(invitation(&invited(4).as_bytes()[..60]), None);
    }
}
