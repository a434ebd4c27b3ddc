//! As much of HTTP/1.1 as an issuer of the tests needs: one request in each connection.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::{Value, json};

/// A request.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) form: HashMap<String, String>,
    /// Name and secret of HTTP's basic authentication.
    basic: Option<(String, String)>,
}

impl Asked {
    /// Whether it is this client's, by its secret in the head or in the form (RFC 6749 §2.3.1).
    pub(super) fn is_client(&self, client: (&str, &str)) -> bool {
        let in_form = || {
            let field = |name: &str| self.form.get(name).map(String::as_str);
            field("client_id") == Some(client.0) && field("client_secret") == Some(client.1)
        };
        match &self.basic {
            Some((name, secret)) => (name.as_str(), secret.as_str()) == client,
            None => in_form(),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    pub(super) fn json(status: u16, body: &Value) -> Answer {
        Answer {
            status,
            head: "Content-Type: application/json\r\n".to_owned(),
            body: body.to_string(),
        }
    }

    pub(super) fn error(status: u16, error: &str) -> Answer {
        Answer::json(status, &json!({ "error": error }))
    }

    pub(super) fn text(body: &str) -> Answer {
        Answer {
            status: 200,
            head: "Content-Type: text/html\r\n".to_owned(),
            body: body.to_owned(),
        }
    }

    pub(super) fn redirect(to: &str) -> Answer {
        Answer {
            status: 302,
            head: format!("Location: {to}\r\n"),
            body: String::new(),
        }
    }
}

/// Answers the one request of a connection. One that breaks off is its client's affair.
pub(super) fn serve(stream: &TcpStream, answer: impl FnOnce(&Asked) -> Answer) {
    let patience = stream.set_read_timeout(Some(Duration::from_secs(30)));
    if patience.is_ok()
        && let Ok(asked) = read(stream)
    {
        let Answer { status, head, body } = answer(&asked);
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status} OK\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let mut stream = stream;
        stream.write_all(text.as_bytes()).ok();
    }
}

fn read(stream: &TcpStream) -> std::io::Result<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut asked = Asked {
        path: line.split(' ').nth(1).unwrap_or_default().to_owned(),
        ..Asked::default()
    };
    // Of the head only two fields count.
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or(0),
            "authorization" => asked.basic = basic(value),
            _ => {}
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    let fields = body.split('&').filter_map(|field| field.split_once('='));
    asked.form = fields
        .map(|(name, value)| (plain(name), plain(value)))
        .collect();
    Ok(asked)
}

fn basic(value: &str) -> Option<(String, String)> {
    let decoded = BASE64
        .decode(value.strip_prefix("Basic ")?.as_bytes())
        .ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (name, secret) = text.split_once(':')?;
    Some((plain(name), plain(secret)))
}

/// A field of a form, decoded.
fn plain(text: &str) -> String {
    let spaced = text.replace('+', " ");
    let mut bytes = Vec::new();
    let mut rest = spaced.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
