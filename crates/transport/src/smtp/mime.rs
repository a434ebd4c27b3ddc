//! The mail around a container. It has the shape of a bounce, which no mailing list passes on and no
//! vacation programme answers (the paper, §3.3).

use data_encoding::HEXLOWER;
use mail_builder::MessageBuilder;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::MimePart;
use mail_parser::{MessageParser, MimeHeaders};

use super::container::{Container, ContainerError};
use crate::address::MailAddress;
use crate::limits::MAIL_BYTES;

/// For the person who finds one in a mailbox.
const TEXT: &str = "This mail is part of a conversation between two computers. It was sent by\r\n\
    Ringway to a mailbox that its owner lets Ringway use. Nobody needs to read it;\r\n\
    a filter by its header keeps such mails out of sight.\r\n";

/// A whole mail to `to`. `domain` is ours.
pub(super) fn write(container: &Container, to: &MailAddress, domain: &str) -> Vec<u8> {
    let (filter, value) = to.filter();
    let report = ContentType::new("multipart/report").attribute("report-type", "delivery-status");
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
    let parser = MessageParser::new();
    // The headers alone first: most mails in a mailbox are no business of ours.
    let head = parser.parse_headers(mail).ok_or(NotOurs::Foreign)?;
    let (filter, expected) = own.filter();
    let ours = head
        .headers_raw()
        .any(|(name, value)| name.eq_ignore_ascii_case(filter) && value.trim() == expected);
    if !ours {
        return Err(NotOurs::Foreign);
    }
    let message = parser.parse(mail).ok_or(NotOurs::Malformed)?;
    let mut parts = message.parts.iter();
    let part = parts.find(|part| part.is_content_type("application", "octet-stream"));
    let part = part.filter(|part| !part.is_encoding_problem);
    Ok(Container::decode(
        part.ok_or(NotOurs::Malformed)?.contents(),
    )?)
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
    fn what_mail_servers_do_to_a_mail_does_not_hurt() {
        let (container, mail) = sample();
        let text = String::from_utf8(mail).unwrap();
        let received = format!(
            "Return-Path: <>\r\nReceived: from a by b; Mon, 1 Jan 2024 00:00:00 +0000\r\n{text}"
        );
        let unix = received.replace("\r\n", "\n");
        let lower = received.replace("X-Ringway:", "x-ringway:");
        for changed in [received, unix, lower] {
            assert_eq!(read(changed.as_bytes(), &own()), Ok(container.clone()));
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
