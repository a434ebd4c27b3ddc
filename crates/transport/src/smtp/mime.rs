//! The mail around a container. It has the shape of a bounce, which no mailing list passes on and
//! no vacation programme answers (the paper, §3.3).

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use mail_builder::MessageBuilder;
use mail_builder::headers::content_type;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::MimePart;
use mail_parser::parsers::MessageStream;
use mail_parser::{ContentType, Header, HeaderName, HeaderValue, MessageParser};

use super::container::{Container, ContainerError};
use crate::address::MailAddress;
use crate::limits::{MAIL_BYTES, MAIL_HEAD_BYTES, MAIL_PART_HEAD_BYTES, MAIL_PARTS};

/// For the person who finds one in a mailbox.
const TEXT: &str = "This mail is part of a conversation between two computers. It was sent by\r\n\
    Ringway to a mailbox that its owner lets Ringway use. Nobody needs to read it;\r\n\
    a filter by its header keeps such mails out of sight.\r\n";

/// A whole mail to `to`. `domain` is ours.
pub(super) fn write(container: &Container, to: &MailAddress, domain: &str) -> Vec<u8> {
    let (filter, value) = to.filter();
    let report = content_type::ContentType::new("multipart/report")
        .attribute("report-type", "delivery-status");
    let body = MimePart::new(
        report,
        vec![
            MimePart::new("text/plain", TEXT),
            MimePart::new("application/octet-stream", container.encode()),
        ],
    );
    let number = HEXLOWER.encode(&container.number);
    let mut mail = Vec::new();
    MessageBuilder::new()
        .from(format!("MAILER-DAEMON@{domain}"))
        .to(to.mailbox())
        .subject("Delivery report")
        .message_id(format!("{number}@{domain}"))
        .header("Auto-Submitted", Raw::new("auto-replied"))
        .header(filter, Raw::new(value))
        .body(body)
        .serialize(&mut mail);
    mail
}

/// Why a mail is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotOurs {
    /// It does not have our filter header: somebody else's mail.
    Foreign,
    /// It claims to be ours and is not, or is too long to tell.
    Malformed,
}

impl From<ContainerError> for NotOurs {
    fn from(error: ContainerError) -> Self {
        tracing::debug!(%error, "a mail with our filter header is malformed");
        Self::Malformed
    }
}

/// Reads a mail that arrived for `own`.
pub(super) fn read(mail: &[u8], own: &MailAddress) -> Result<Container, NotOurs> {
    if mail.len() > MAIL_BYTES {
        return Err(NotOurs::Malformed);
    }
    // The headers alone first: most mails in a mailbox are no business of ours.
    let (headers, body) = split(mail, MAIL_HEAD_BYTES);
    if !headers.iter().any(|header| is_filter(header, mail, own)) {
        return Err(NotOurs::Foreign);
    }
    let payload = payload(&headers, body).ok_or(NotOurs::Malformed)?;
    Ok(Container::decode(&payload)?)
}

/// Whether a mail with these headers is for `own`, if it is what it claims to be.
pub(super) fn claims(head: &[u8], own: &MailAddress) -> bool {
    let (headers, _) = split(head, MAIL_HEAD_BYTES);
    headers.iter().any(|header| is_filter(header, head, own))
}

/// Whether a header of the mail is the one by which `own` filters.
fn is_filter(header: &Header<'_>, mail: &[u8], own: &MailAddress) -> bool {
    let (filter, expected) = own.filter();
    let start = usize::try_from(header.offset_start).unwrap_or(usize::MAX);
    let end = usize::try_from(header.offset_end).unwrap_or(0);
    let value = mail.get(start..end).unwrap_or_default();
    header.name().eq_ignore_ascii_case(filter) && value.trim_ascii() == expected.as_bytes()
}

/// The headers, at most `limit` bytes of them, and what stands behind them.
fn split(mail: &[u8], limit: usize) -> (Vec<Header<'_>>, &[u8]) {
    let head = mail.get(..limit).unwrap_or(mail);
    let (mut stream, mut headers) = (MessageStream::new(head), Vec::new());
    stream.parse_headers(&MessageParser::new(), &mut headers);
    (headers, mail.get(stream.offset()..).unwrap_or_default())
}

fn field<'h>(headers: &'h [Header<'_>], name: &HeaderName<'_>) -> Option<&'h HeaderValue<'h>> {
    let found = headers.iter().rev().find(|header| header.name == *name);
    found.map(|header| &header.value)
}

fn content_type<'h>(headers: &'h [Header<'_>]) -> Option<&'h ContentType<'h>> {
    field(headers, &HeaderName::ContentType)?.as_content_type()
}

fn is(kind: &ContentType<'_>, name: &str, subtype: &str) -> bool {
    let same = |found: &str| found.eq_ignore_ascii_case(subtype);
    kind.ctype().eq_ignore_ascii_case(name) && kind.subtype().is_some_and(same)
}

/// The first part of type `application/octet-stream`, decoded.
///
/// This goes from part to part with the library's own steps. Its whole parser keeps mails within
/// mails, one within the other, and some ten thousand of them, which fit into one mail, overflow
/// the stack.
fn payload<'x>(headers: &[Header<'_>], body: &'x [u8]) -> Option<Cow<'x, [u8]>> {
    let mut boundary = content_type(headers)?.attribute("boundary")?.to_owned();
    let mut rest = body;
    for _ in 0..MAIL_PARTS {
        let mut stream = MessageStream::new(rest);
        if !stream.seek_next_part(boundary.as_bytes()) {
            return None;
        }
        stream.skip_crlf();
        rest = rest.get(stream.offset()..)?;
        let (headers, body) = split(rest, MAIL_PART_HEAD_BYTES);
        let Some(kind) = content_type(&headers) else {
            continue;
        };
        if is(kind, "application", "octet-stream") {
            let encoding = field(&headers, &HeaderName::ContentTransferEncoding)?;
            let is_base64 = encoding.as_text()?.eq_ignore_ascii_case("base64");
            let (end, decoded) = MessageStream::new(body).decode_base64_mime(boundary.as_bytes());
            return Some(decoded).filter(|_| is_base64 && end != usize::MAX);
        }
        // A mail server that adds a part may put all that was there into one.
        if kind.ctype().eq_ignore_ascii_case("multipart") {
            kind.attribute("boundary")?.clone_into(&mut boundary);
            rest = body;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::container::tests::containers;
    use super::*;
    use proptest::prelude::*;

    fn own() -> MailAddress {
        MailAddress::new("oslo@example.org", "X-Ringway", "k3").unwrap()
    }

    fn sample() -> (Container, Vec<u8>) {
        let container = Container {
            number: [3; 16],
            reply: Some(own()),
            messages: vec![vec![9; 200].into(), "hello".into()],
        };
        let mail = write(&container, &own(), "example.com");
        (container, mail)
    }

    #[test]
    fn looks_like_a_bounce() {
        let (container, mail) = sample();
        assert_eq!(read(&mail, &own()), Ok(container));
        let text = String::from_utf8(mail).unwrap();
        for expected in [
            "From: <MAILER-DAEMON@example.com>\r\n",
            "To: <oslo@example.org>\r\n",
            "Auto-Submitted: auto-replied\r\n",
            "X-Ringway: k3\r\n",
            "Content-Type: multipart/report; report-type=\"delivery-status\";",
            "Content-Transfer-Encoding: base64\r\n",
            "\r\nDate: ",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        // What mail servers must take: 7 bits, and short lines (RFC 5322 §2.1.1).
        assert!(text.is_ascii());
        assert!(text.split("\r\n").all(|line| line.len() <= 78), "{text}");
    }

    #[test]
    fn whatever_is_not_ours_is_told_apart() {
        let (_, mail) = sample();
        let text = String::from_utf8(mail.clone()).unwrap();
        let as_read = |text: &str| read(text.as_bytes(), &own()).unwrap_err();
        for foreign in [
            "",
            "Subject: lunch?\r\n\r\nAt one.\r\n",
            &text.replace("X-Ringway: k3", "X-Ringway: k4"),
            &text.replace("X-Ringway: k3", "X-Ringway: k33"),
            &text.replace("X-Ringway: k3", "X-Other: k3"),
            // The header stands in the body only.
            &format!("Subject: Fwd\r\n\r\n{text}"),
        ] {
            assert_eq!(as_read(foreign), NotOurs::Foreign, "{foreign}");
        }
        let middle = text.len() * 2 / 3;
        for spoofed in [
            "X-Ringway: k3\r\n\r\nHello!\r\n",
            &text[..middle],
            &text.replace("application/octet-stream", "image/png"),
            &text.replace("UldNT", "AAAAA"), // the magic, in base64
        ] {
            assert_eq!(as_read(spoofed), NotOurs::Malformed, "{spoofed}");
        }
        let long = format!("{text}{}", "x\r\n".repeat(MAIL_BYTES / 3));
        assert_eq!(as_read(&long), NotOurs::Malformed);
    }

    #[test]
    fn mail_changed_by_servers_is_still_read() {
        let (container, mail) = sample();
        let text = String::from_utf8(mail).unwrap();
        let received = format!(
            "Return-Path: <>\r\nReceived: from a by b; Mon, 1 Jan 2024 00:00:00 +0000\r\n{text}"
        );
        let unix = received.replace("\r\n", "\n");
        let lower = received.replace("X-Ringway:", "x-ringway:");
        // A footer, with all that was there put into one part.
        let (head, body) = text.split_once("\r\nContent-Type: multipart").unwrap();
        let wrapped = format!(
            "{head}\r\nContent-Type: multipart/mixed; boundary=outer\r\n\r\n--outer\r\n\
             Content-Type: multipart{body}\r\n--outer\r\nContent-Type: text/plain\r\n\r\n\
             No viruses.\r\n--outer--\r\n"
        );
        for changed in [received, unix, lower, wrapped] {
            assert_eq!(read(changed.as_bytes(), &own()), Ok(container.clone()));
        }
    }

    /// Mails of nearly full size, each the same piece over and over behind our header.
    fn hostile() -> Vec<String> {
        let (header, mixed) = (
            "X-Ringway: k3\r\n",
            "X-Ringway: k3\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n",
        );
        let digest = mixed.replace("mixed", "digest");
        let encoded = format!("{mixed}--b\r\nContent-Transfer-Encoding: base64\r\n\r\n");
        let pieces = [
            (mixed, "--b\r\n\r\n\r\n"),
            (
                mixed,
                "--b\r\nContent-Type: message/rfc822\r\n\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n",
            ),
            (
                mixed,
                "--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n",
            ),
            (mixed, "--"),
            (mixed, "\r\n-"),
            (&digest, "--b\r\n\r\nA: b\r\n\r\n"),
            (&encoded, "AAAA"),
            (header, "A:\r\n"),
            (header, "Content-Type: message/rfc822\r\n\r\n"),
            ("X-Ringway: k3\r\nReferences: ", "<a>"),
            ("X-Ringway: k3\r\nTo: ", "a,"),
            ("X-Ringway: k3\r\nTo: ", "("),
            ("X-Ringway: k3\r\nContent-Type: a/b; ", "a*0=b;"),
            ("X-Ringway: k3\r\nSubject: ", "=?utf-8?q?a?= "),
        ];
        let full = |(head, piece): (&str, &str)| {
            format!(
                "{head}{}",
                piece.repeat((MAIL_BYTES - head.len()) / piece.len())
            )
        };
        pieces.into_iter().map(full).collect()
    }

    #[test]
    fn hostile_mails_are_malformed_and_no_more() {
        for mail in hostile() {
            assert_eq!(
                read(mail.as_bytes(), &own()),
                Err(NotOurs::Malformed),
                "{}",
                &mail[..99]
            );
        }
    }

    proptest! {
        #[test]
        fn comes_out_as_it_went_in(container in containers()) {
            let mail = write(&container, &own(), "example.com");
            prop_assert_eq!(read(&mail, &own()), Ok(container));
        }

        #[test]
        fn damage_never_panics(container in containers(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut mail = write(&container, &own(), "example.com");
            let at = at.index(mail.len());
            mail[at] = byte;
            drop(read(&mail, &own()));
            drop(read(&mail[..at], &own()));
            drop(read(&mail[at..], &own()));
        }
    }
}
