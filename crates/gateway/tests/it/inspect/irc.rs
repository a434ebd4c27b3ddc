//! Messages of IRC, and what clients send each other directly.

use ringway_gateway::flow::Direction::{self, FromClient, FromServer};
use ringway_gateway::inspect::{Expected, FileHead, dcc};

use super::{Step, Told, begin, client, data, message, named, run, run_made, server};
use crate::at;

pub(super) fn seeds() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        (
            "irc",
            vec![
                client("NICK ann\r\nUSER a 0 * :A\r\nPRIVMSG #x :\x02he\x02llo\r\n"),
                server(
                    "@time=1 :bob!b@h PRIVMSG ann :\x01DCC SEND \"a b.exe\" 3221226219 4000 77\x01\r\n:s 433 * ann\r\n:bob!b@h PRIVMSG ann :\x01DCC CHAT chat 3221226219 4001\x01\r\n",
                ),
                server(":s 670 ann :STARTTLS\r\n"),
            ],
        ),
        (
            "dcc",
            vec![server("abcdef"), client([0, 0, 0, 6]), Step::ServerEnds],
        ),
        (
            "dcc-chat",
            vec![client("hi\nthere"), server("yes\r\n"), Step::ClientEnds],
        ),
    ]
}

fn expect(server: &str, application: &'static str, file: FileHead) -> Told {
    Told::Expect(Expected {
        server: at(server),
        application,
        file,
    })
}

#[test]
fn messages_are_told_with_their_people() {
    let told = run(
        "irc",
        &[
            client("NICK ann\r\nPRIVMSG #ring :hello: all\r\n"),
            server("@time=x;a=b :bob!u@host PRIVMSG ann :hi\r\n:irc.example NOTICE ann word\n"),
            server(":ann!u@host NICK :eve\r\n:bob!u@h NICK rob\r\nPING :x\r\n"),
            client(
                "privmsg bob :\x01ACTION waves\x01\r\nPRIVMSG bob :\x01VERSION\x01\r\nPRIVMSG bob\r\n",
            ),
            client(b":mallory!u@h PRIVMSG bob :caf\xe9\r\n"),
        ],
    );
    assert_eq!(
        told,
        [
            message("hello: all", Some("ann"), Some("#ring")),
            message("hi", Some("bob"), Some("ann")),
            message("word", Some("irc.example"), Some("ann")),
            message("waves", Some("eve"), Some("bob")),
            message("café", Some("eve"), Some("bob")),
        ]
    );
}

#[test]
fn commands_that_carry_text_are_messages() {
    for (line, to) in [
        ("TOPIC #x :the secret", Some("#x")),
        ("PART #x :the secret", Some("#x")),
        ("KICK #x bob :the secret", Some("#x")),
        ("QUIT :the secret", None),
        ("AWAY :the secret", None),
    ] {
        let told = run("irc", &[client(format!("NICK ann\r\n{line}\r\n"))]);
        assert_eq!(told, [message("the secret", Some("ann"), to)], "{line}");
    }
    for line in [":s 332 ann #x :the secret", ":bob!b@h TOPIC #x :the secret"] {
        let told = run("irc", &[server(format!("{line}\r\n"))]);
        assert_eq!(told.len(), 1, "{line}");
    }
    assert!(run("irc", &[client("QUIT\r\nPART #x\r\n")]).is_empty());
}

#[test]
fn colours_do_not_hide_words() {
    let said = "s\x02e\x0fc\x0304,12r\x033e\x03t \x04ff0000n\x1do 3,5\x03,x";
    let told = run("irc", &[client(format!("PRIVMSG #a :{said}\r\n"))]);
    assert_eq!(told, [message("secret no 3,5,x", None, Some("#a"))]);
}

#[test]
fn offers_announce_their_connections() {
    let file = |name: &str, size, sender: Option<Direction>| FileHead {
        size,
        sender,
        ..named(name)
    };
    let cases = [
        (
            "SEND a.zip 3221226219 4000 77",
            "a.zip",
            Some(77),
            Some(("192.0.2.235:4000", FromServer)),
        ),
        (
            "SEND \"dir/a b.exe\" 192.0.2.1 4000 77",
            "a b.exe",
            Some(77),
            Some(("192.0.2.1:4000", FromServer)),
        ),
        (
            "send a b 3.exe 3221226219 4000",
            "a b 3.exe",
            None,
            Some(("192.0.2.235:4000", FromServer)),
        ),
        (
            "SEND a 2001:db8::1 4000 1",
            "a",
            Some(1),
            Some(("[2001:db8::1]:4000", FromServer)),
        ),
        // Asks to be called: no address yet; the answer has the same token.
        ("SEND a 199 0 5 9", "a", Some(5), None),
        (
            "SEND a 3221226219 4000 5 9",
            "a",
            Some(5),
            Some(("192.0.2.235:4000", FromClient)),
        ),
        ("SEND a nowhere x", "a", None, None),
        ("SEND a 3221226219 70000", "a", None, None),
    ];
    for (request, name, size, connection) in cases {
        let told = run(
            "irc",
            &[server(format!(
                ":b!u@h PRIVMSG ann :\x01DCC {request}\x01\r\n"
            ))],
        );
        let Told::Offer(head) = &told[0] else {
            panic!("{told:?}")
        };
        assert_eq!(head.name.as_deref(), Some(name), "{request}");
        let expected: Vec<Told> = connection
            .map(|(server, sender)| expect(server, "dcc", file(name, size, Some(sender))))
            .into_iter()
            .collect();
        assert_eq!(told[1..], expected, "{request}");
    }
    let chat = run(
        "irc",
        &[client(
            "PRIVMSG bob :see \x01DCC CHAT chat 3221226219 4001\x01\r\n",
        )],
    );
    assert_eq!(
        chat,
        [
            message("see ", None, Some("bob")),
            expect("192.0.2.235:4001", "dcc-chat", FileHead::default()),
        ]
    );
}

#[test]
fn encryption_is_lost() {
    let told = run(
        "irc",
        &[
            client("STARTTLS\r\n"),
            server(":s 670 * :go on\r\n"),
            client("\x16\x03\x01PRIVMSG a :b\r\n"),
        ],
    );
    assert_eq!(told, [Told::Lost("encrypted")]);
    // Only the server says so.
    assert_eq!(run("irc", &[client("670 x\r\n")]), []);
}

#[test]
fn a_line_has_a_bound() {
    let make = || super::made("irc");
    let long = [client("x".repeat(20_000))];
    assert_eq!(
        super::run_cut(&make, &long, &[999]),
        [Told::Lost("a line or head that is too long")]
    );
}

#[test]
fn a_file_is_what_the_first_side_sends() {
    let head = FileHead {
        size: Some(6),
        ..named("a.zip")
    };
    let make = || dcc(head.clone());
    let told = run_made(
        &make,
        &[
            server("abc"),
            client([0, 0, 0, 3]),
            server("def"),
            client([0, 0, 0, 6]),
            Step::ServerEnds,
        ],
    );
    assert_eq!(
        told,
        [
            begin(Some("a.zip"), None, Some(6), FromServer),
            data("abcdef"),
            Told::End
        ]
    );
    // Called back, the sender is the client.
    let told = run_made(&make, &[client("abcdef")]);
    assert_eq!(
        told,
        [
            begin(Some("a.zip"), None, Some(6), FromClient),
            data("abcdef"),
            Told::End
        ]
    );
    let more = run_made(&make, &[server("abcdefg")]);
    assert_eq!(
        more[2..],
        [Told::End, Told::Lost("more bytes than announced")]
    );
    let cut = run_made(&make, &[server("abc"), Step::ServerEnds]);
    assert_eq!(cut[1..], [data("abc")]);
}

#[test]
fn a_file_without_size_ends_with_its_direction() {
    let steps = [
        server("abc"),
        Step::ClientEnds,
        server("d"),
        Step::ServerEnds,
    ];
    let told = run("dcc", &steps);
    assert_eq!(
        told,
        [begin(None, None, None, FromServer), data("abcd"), Told::End]
    );
}

#[test]
fn acknowledgements_that_count_nothing_are_data() {
    let told = run("dcc", &[server("a"), client(b"MZ\x90\0")]);
    assert_eq!(told.last(), Some(&Told::Lost("data both ways")));
}

#[test]
fn lines_of_a_chat_are_messages() {
    let told = run(
        "dcc-chat",
        &[
            client("hello\n\nyou\r\n"),
            server("\x01ACTION nods\x01\n\x01DCC SEND f 3221226219 4000 1\x01\nlast"),
            Step::ServerEnds,
        ],
    );
    assert_eq!(
        told[..3],
        [
            message("hello", None, None),
            message("you", None, None),
            message("nods", None, None),
        ]
    );
    assert!(
        matches!(
            told[3..],
            [Told::Offer(_), Told::Expect(_), Told::Message(_)]
        ),
        "{told:?}"
    );
}
