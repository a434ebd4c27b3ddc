//! A whole member, with real sockets, and members of its ring that do as they like.

mod leaves;
mod members;
mod routers;
#[cfg(not(feature = "insecure"))]
mod sessions;
mod untrusted;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ringway_transport::limits::{
    ADVERTISER_BUDGET, ADVERTISER_BUDGET_INTERVAL, HELLO_ADDRESSES, MAIL_BUDGET,
};
use ringway_transport::{Address, AddressDescriptor, Hello, Ping, Pong, Signer as _};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::members::{DIRECT, Honest, Owner, Puppet};
use crate::limits::SIGNATURE_BAN;
use crate::link::LinkMessage;

/// Generous: the limit only turns a hang into a failure.
const SOON: Duration = Duration::from_secs(60);
/// What may be lost on a busy machine is sent again after this time.
const REPEAT: Duration = Duration::from_secs(1);

/// Longer than several repetitions of a PING would take.
const A_WHILE: Duration = Duration::from_secs(5);

/// Sizes of what arrives at a socket.
fn watched(socket: UdpSocket) -> mpsc::UnboundedReceiver<usize> {
    let (sizes, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        while let Ok(size) = socket.recv(&mut buffer).await {
            if sizes.send(size).is_err() {
                return;
            }
        }
    });
    seen
}

fn all(seen: &mut mpsc::UnboundedReceiver<usize>) -> Vec<usize> {
    std::iter::from_fn(|| seen.try_recv().ok()).collect()
}

/// A third party named in a HELLO gets one message no larger than that.
#[tokio::test]
async fn third_party_in_hello_gets_one_small_message() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    let victim = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let named = Address::Udp(victim.local_addr().unwrap());
    let mut seen = watched(victim);
    let size = mallory.hello(&oslo, std::slice::from_ref(&named)).await;
    // It is asked for another HELLO, and gives none.
    let asked = mallory.run(A_WHILE, |_| false).await;
    assert!(asked.is_none());
    let sizes = all(&mut seen);
    assert_eq!(sizes.len(), 1, "{sizes:?}");
    assert!(sizes[0] <= size, "{sizes:?} for a HELLO of {size}");
    let wanted = |(_, message): &(_, LinkMessage)| *message == LinkMessage::HelloWanted;
    assert!(mallory.heard.iter().any(wanted));
    assert!(!oslo.believes(&mallory, &named).await);
    // Another HELLO is worth another message, and no more.
    let again = mallory.hello(&oslo, &[named]).await;
    mallory.run(A_WHILE, |_| false).await;
    let sizes = all(&mut seen);
    assert!(
        sizes.len() <= 1 && sizes.iter().sum::<usize>() <= again,
        "{sizes:?}"
    );
}

/// A QUIC handshake goes to no host at which the member has not answered.
#[tokio::test]
async fn quic_handshake_goes_only_where_member_has_answered() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    // Another host, as far as anybody can tell.
    let victim = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let named = Address::Quic(victim.local_addr().unwrap());
    let own_host = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let own = Address::Quic(own_host.local_addr().unwrap());
    let (mut seen, mut seen_at_own) = (watched(victim), watched(own_host));
    let addresses = [named, own, mallory.address()];
    mallory.hello(&oslo, &addresses).await;
    mallory.answers(&oslo).await;
    assert!(oslo.believes(&mallory, &addresses[2]).await);
    let first = timeout(SOON, seen_at_own.recv()).await.unwrap();
    assert!(first > Some(1_000), "a handshake");
    mallory.run(A_WHILE, |_| false).await;
    assert_eq!(all(&mut seen), [0; 0]);
}

/// Takes mails and tells what the client said, line by line.
async fn relay(listener: TcpListener, lines: mpsc::UnboundedSender<String>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(take_mail(stream, lines.clone()));
    }
}

async fn take_mail(stream: TcpStream, lines: mpsc::UnboundedSender<String>) -> Option<()> {
    let (reading, mut writing) = stream.into_split();
    writing.write_all(b"220 mail.test\r\n").await.ok()?;
    let (mut reading, mut in_mail) = (BufReader::new(reading).lines(), false);
    while let Some(line) = reading.next_line().await.ok()? {
        in_mail &= line != ".";
        let answer = match line.get(..4) {
            _ if in_mail => "",
            Some("DATA") => "354 go on\r\n",
            Some("QUIT") => "221 bye\r\n",
            _ => "250 ok\r\n",
        };
        in_mail |= line == "DATA";
        lines.send(line).ok()?;
        writing.write_all(answer.as_bytes()).await.ok()?;
    }
    Some(())
}

/// A mailing list named in HELLOs gets a mail or two that no list passes on.
#[tokio::test]
async fn mailing_list_in_hellos_gets_few_automatic_mails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (lines, mut said) = mpsc::unbounded_channel();
    tokio::spawn(relay(listener, lines));
    let mut owner = Owner::new();
    let smtp = format!(
        "{DIRECT}[smtp]\nrelay = {{ host = \"127.0.0.1\", port = {port}, tls = \"plain\" }}\n"
    );
    let oslo = Honest::start(&mut owner, "oslo", &smtp).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    let list = |number: u32| {
        let text = format!("smtp://everybody@lists.example.org?X-Ringway=k{number}");
        text.parse::<Address>().unwrap()
    };
    mallory.hello(&oslo, &[list(0)]).await;
    let mails = |said: &[String]| {
        let to = "RCPT TO:<everybody@lists.example.org>";
        said.iter().filter(|line| line.starts_with(to)).count()
    };
    mallory.run(A_WHILE, |_| false).await;
    let mut all_said: Vec<String> = std::iter::from_fn(|| said.try_recv().ok()).collect();
    assert_eq!(mails(&all_said), 1, "{all_said:?}");
    // Forgotten and named again, and with another filter header each time.
    for number in 0..50 {
        mallory.hello(&oslo, &[list(number % 3)]).await;
        mallory.hello(&oslo, &[]).await;
        mallory.echo(&oslo, 100 + u64::from(number)).await;
    }
    mallory.run(A_WHILE, |_| false).await;
    all_said.extend(std::iter::from_fn(|| said.try_recv().ok()));
    let mails = mails(&all_said);
    let most = usize::try_from(MAIL_BUDGET).unwrap();
    assert!(mails <= most, "{mails} mails");
    let count = |begin: &str| {
        let begins = |line: &&String| line.starts_with(begin);
        all_said.iter().filter(begins).count()
    };
    assert_eq!(count("MAIL FROM:<>"), mails, "{all_said:?}");
    assert_eq!(count("Auto-Submitted: auto-"), mails, "{all_said:?}");
}

/// What another member answers to a PING passed on proves nothing.
#[tokio::test]
async fn pong_of_another_member_proves_nothing() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let lima = Honest::start(&mut owner, "lima", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    mallory.link_to(&lima).await;
    // It claims to be where lima is, and where it is itself.
    let (limas, own) = (Address::Udp(lima.address), mallory.address());
    mallory.hello(&oslo, &[limas.clone(), own.clone()]).await;
    let ping = mallory.pinged().await;
    assert_eq!(ping.address, own, "the other one went to lima");
    // The owner of the address is asked by the challenge that came for mallory, in oslo's name and
    // in its own.
    let passed_on = Ping {
        target: lima.certificate.member(),
        address: limas.clone(),
        ..ping.clone()
    };
    mallory.say(&lima, LinkMessage::Ping(passed_on.encode().into()));
    // An echo may overtake what came with it; a second one cannot.
    for number in [6, 7] {
        mallory.echo(&lima, number).await;
    }
    let is_pong = |(_, message): &(_, LinkMessage)| matches!(message, LinkMessage::Pong(_));
    assert!(
        !mallory.heard.iter().any(is_pong),
        "oslo has not asked lima"
    );
    let own_name = Ping {
        challenger: mallory.identity.member(),
        ..passed_on.clone()
    };
    mallory.say(&lima, LinkMessage::Ping(own_name.encode().into()));
    let pong = mallory.hears(|message| matches!(message, LinkMessage::Pong(_)));
    let LinkMessage::Pong(bytes) = pong.await else {
        panic!("a PONG")
    };
    let limas_word = Pong::decode(&bytes).unwrap();
    let dressed_up = Pong {
        challenger: ping.challenger,
        ..limas_word.clone()
    };
    let for_the_right_one = Pong {
        address: own.clone(),
        ..dressed_up.clone()
    };
    let for_another_address = Pong::sign(
        &Ping {
            address: limas.clone(),
            ..ping.clone()
        },
        &mallory.identity,
    );
    let before = oslo.counter("pongs_refused").await;
    for pong in [
        limas_word,
        dressed_up,
        for_the_right_one,
        for_another_address,
    ] {
        mallory.pong(&oslo, &pong);
    }
    mallory.echo(&oslo, 8).await;
    assert_eq!(oslo.counter("pongs_refused").await, before + 4);
    for address in [&limas, &own] {
        assert!(!oslo.believes(&mallory, address).await, "{address}");
    }
    // The truth is still heard.
    mallory.pong(&oslo, &Pong::sign(&ping, &mallory.identity));
    mallory.echo(&oslo, 9).await;
    assert!(oslo.believes(&mallory, &own).await);
    assert!(!oslo.believes(&mallory, &limas).await);
}

#[tokio::test]
async fn a_pong_of_yesterday_proves_nothing_today() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    let own = mallory.address();
    mallory.hello(&oslo, std::slice::from_ref(&own)).await;
    let old = mallory.answers(&oslo).await;
    assert!(oslo.believes(&mallory, &own).await);
    // It moves away, and somebody comes back in its name.
    mallory.hello(&oslo, &[]).await;
    mallory.heard.clear();
    mallory.hello(&oslo, std::slice::from_ref(&own)).await;
    let ping = mallory.pinged().await;
    assert_ne!(ping.challenge, old.challenge);
    mallory.pong(&oslo, &old);
    mallory.echo(&oslo, 5).await;
    assert!(!oslo.believes(&mallory, &own).await);
    assert!(oslo.counter("pongs_refused").await > 0);
}

/// Past a member's quota nothing more is sent there.
#[tokio::test]
async fn nothing_is_sent_past_a_members_quota() {
    const QUOTA: u32 = 20;
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut alice = Puppet::new(&mut owner, "alice").await;
    alice.link_to(&oslo).await;
    let modest = AddressDescriptor {
        quota: Some(QUOTA),
        ..AddressDescriptor::observed(alice.address())
    };
    let address = modest.address.to_string();
    let hello = Hello::sign(&alice.identity, 1, vec![modest]).unwrap();
    // What was said before the quota is known does not count: oslo's own HELLO.
    alice.echo(&oslo, 2).await;
    alice.heard.clear();
    let hello = hello.encoded().to_vec();
    alice.say(&oslo, LinkMessage::Hello(hello.into()));
    alice.answers(&oslo).await;
    for number in 0..2 * u64::from(QUOTA) {
        alice.say(&oslo, LinkMessage::Echo(100 + number));
        alice.run(Duration::from_millis(30), |_| false).await;
    }
    let count = alice.heard.len();
    assert!(count <= usize::try_from(QUOTA).unwrap(), "{count} messages");
    assert!(
        count >= usize::try_from(QUOTA).unwrap() / 2,
        "{count} messages"
    );
    let paths = oslo.paths_to(&alice).await;
    let reason = &paths[&address].reason;
    assert!(reason.contains("quota"), "{reason}");
}

/// Ten thousand HELLOs of one member cost others nothing.
#[tokio::test]
async fn ten_thousand_hellos_cost_other_members_nothing() {
    const HELLOS: u64 = 10_000;
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    let mut alice = Puppet::new(&mut owner, "alice").await;
    mallory.link_to(&oslo).await;
    alice.link_to(&oslo).await;
    // Whatever goes to this port of any address of 127/8.
    let everybody = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    let port = everybody.local_addr().unwrap().port();
    let mut seen = watched(everybody);
    let start = Instant::now();
    for number in 0..HELLOS {
        let host = |n: u64| {
            let [.., a, b, c] = (number * 16 + n + 256).to_be_bytes();
            Address::Udp(SocketAddr::from(([127, a, b, c], port)))
        };
        let addresses: Vec<Address> = (0..16).map(host).collect();
        mallory.hello(&oslo, &addresses).await;
        if number % 50 == 0 {
            mallory.echo(&oslo, 10 + number).await;
        }
        if number == HELLOS / 2 {
            // In the midst of it somebody else is served.
            let own = alice.address();
            alice.hello(&oslo, std::slice::from_ref(&own)).await;
            alice.answers(&oslo).await;
            assert!(oslo.believes(&alice, &own).await);
        }
    }
    mallory.echo(&oslo, 10 + HELLOS).await;
    let earned = start.elapsed().as_millis() / ADVERTISER_BUDGET_INTERVAL.as_millis() + 1;
    let most = usize::try_from(ADVERTISER_BUDGET).unwrap() + usize::try_from(earned).unwrap();
    let pings = all(&mut seen).len();
    assert!((1..=most).contains(&pings), "{pings} PINGs, at most {most}");
    let known = oslo.paths_to(&mallory).await;
    assert!(
        known.len() <= HELLO_ADDRESSES + 2,
        "{} are remembered",
        known.len()
    );
    assert!(oslo.directory.cached(&alice.certificate.member()).is_some());
}

/// Forged HELLOs of a member are held against it and cost next to nothing.
#[tokio::test]
async fn forged_hellos_are_cheap_and_held_against_sender() {
    const HELLOS: usize = 2_000;
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    let mut alice = Puppet::new(&mut owner, "alice").await;
    mallory.link_to(&oslo).await;
    alice.link_to(&oslo).await;
    let own = mallory.address();
    mallory.hello(&oslo, std::slice::from_ref(&own)).await;
    let good = mallory.last_hello.clone().unwrap();
    let began = Instant::now();
    for number in 0..HELLOS {
        let mut forged = good.clone();
        let last = forged.len() - 1 - number % 64;
        forged[last] ^= 1;
        mallory.say(&oslo, LinkMessage::Hello(forged.into()));
        mallory.run(Duration::ZERO, |_| false).await;
    }
    mallory.echo(&oslo, 9).await;
    let checked = oslo.counter("signatures_bad").await;
    let dropped = oslo.counter("signatures_not_checked").await;
    // One, and one more for each time that the ban has ended meanwhile.
    let bans = began.elapsed().as_secs() / SIGNATURE_BAN.as_secs() + 1;
    assert!((1..=bans).contains(&checked), "{checked} of {bans}");
    assert!(dropped > 0);
    // Another member's HELLO counts as ever.
    let hers = alice.address();
    alice.hello(&oslo, std::slice::from_ref(&hers)).await;
    alice.answers(&oslo).await;
    assert!(oslo.believes(&alice, &hers).await);
}
