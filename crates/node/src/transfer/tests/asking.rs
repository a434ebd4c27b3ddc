//! Offers that a person is asked about, and programs that are run for what has come.

use super::*;
use crate::config::Config;
use crate::control::InboxItem;
use crate::limits::AWAITED_OFFERS;

/// The rules of a `ringway.toml` with this text.
fn rules(bench: &Bench, text: &str) -> ReceiveConfig {
    let path = crate::home::config_path(bench.home.path());
    std::fs::write(path, format!("[node]\n{text}")).unwrap();
    Config::load(bench.home.path()).unwrap().receive
}

fn follow(bench: &Bench, text: &str) {
    let receive = rules(bench, text);
    let home = bench.home.path();
    bench.transfers.configure(None, &[], receive, home);
}

const ASK: &str = "[[receive]]\nask = true\n";

fn only(bench: &Bench) -> InboxItem {
    bench.transfers.inbox().remove(0)
}

async fn offered(bench: &Bench, id: u128) -> (bool, String) {
    let connection = bench.connect().await;
    let (_sink, answer) = offer(&connection, id).await;
    connection.close(0, "");
    match answer {
        Frame::Accept { .. } => (true, String::new()),
        Frame::Refuse { reason, try_later } => {
            assert_eq!(try_later, !reason.contains("refused by"), "{reason}");
            (false, reason)
        }
        other => panic!("{other:?}"),
    }
}

/// The id that the bench's own member asks its sender to come with.
async fn called_back(bench: &Bench) -> u128 {
    let connection = timeout(PATIENCE, bench.peer.accept()).await;
    let connection = connection.unwrap().unwrap();
    let (_sink, mut stream) = connection.accept_bi().await.unwrap();
    let Frame::Come(id) = Frame::read(&mut stream).await.unwrap() else {
        panic!("something else");
    };
    u128::from_be_bytes(*id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_offers_wait_until_they_are_accepted() {
    let bench = bench(true);
    follow(&bench, ASK);
    for _ in 0..2 {
        let (taken, reason) = offered(&bench, 7).await;
        assert!(!taken);
        assert_eq!(reason, "it waits until a person at me accepts it");
    }
    let item = only(&bench);
    assert_eq!((item.state.as_str(), item.rule), ("asks", 1));
    assert!(
        bench.parts().is_empty(),
        "nothing is kept of what only asks"
    );
    // It waits over a restart, too.
    let stored = bench.state.transfers().unwrap().remove(0);
    assert!(stored.arrival.unwrap().waits());
    bench.transfers.answer(&item.id, true, None).unwrap();
    assert_eq!(called_back(&bench).await, 7);
    assert!(offered(&bench, 7).await.0);
    assert!(bench.transfers.answer(&item.id, true, None).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_offers_say_why_at_both_ends() {
    let bench = bench(true);
    follow(&bench, ASK);
    offered(&bench, 7).await;
    let reason = Some("too \u{1b}[2J large\n");
    let id = only(&bench).id;
    let item = bench.transfers.answer(&id, false, reason).unwrap();
    let expected = "refused by a person at me: too [2J large";
    assert_eq!(item.reason.as_deref(), Some(expected));
    assert_eq!(item.state, "refused");
    assert_eq!(called_back(&bench).await, 7);
    assert_eq!(offered(&bench, 7).await, (false, expected.to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_offers_of_one_member_are_bounded() {
    let bench = bench(false);
    follow(&bench, ASK);
    let connection = bench.connect().await;
    for id in 0..u128::try_from(2 * AWAITED_OFFERS).unwrap() {
        let (_sink, answer) = offer(&connection, id).await;
        assert!(matches!(answer, Frame::Refuse { .. }), "{answer:?}");
    }
    let asks = bench.transfers.inbox();
    let asks = asks.iter().filter(|item| item.state == "asks").count();
    assert_eq!(asks, RECEIVES_PER_MEMBER);
    let all = bench.transfers.inbox().len();
    assert!(all <= RECEIVES_PER_MEMBER + crate::limits::REFUSALS_OF_MEMBER);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_name_rule_and_limit() {
    let bench = bench(false);
    follow(
        &bench,
        "[[receive]]\nname = [\"*.iso\"]\n[[receive]]\nmax = \"1 kB\"\n",
    );
    let connection = bench.connect().await;
    let (_sink, answer) = offer(&connection, 7).await;
    let words = "the file has 1 MiB, and rule 2 of me's [[receive]] takes at most 1 kB";
    let refused = Frame::Refuse {
        reason: words.to_owned(),
        try_later: false,
    };
    assert_eq!(answer, refused);
    assert_eq!(only(&bench).reason.as_deref(), Some(words));
    assert_eq!(bench.transfers.list().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_receiver_calls_a_sender() {
    let bench = bench(true);
    let sent = bench.send().unwrap();
    let connection = bench.connect().await;
    for id in [u128::from_str_radix(&sent.id, 16).unwrap(), 99] {
        let (mut sink, _answers) = connection.open_bi().await.unwrap();
        let come = Frame::Come(id.to_be_bytes().into());
        come.write(&mut sink).await.unwrap();
        sink.finish().unwrap();
    }
    // Neither ends anything.
    assert!(bench.transfers.status(&sent.id).unwrap().0.state != "failed");
}

/// A file of one byte comes.
async fn arrives(bench: &Bench) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, b"content\n").unwrap();
    let source = Source::open(&path, &folder.path().join("tree")).unwrap();
    let connection = bench.connect().await;
    let (mut sink, mut answers, missing) = offer_source(&connection, &source).await;
    let mut encoded = Vec::new();
    let ranges = from_wire(&missing).unwrap();
    source.encode(&ranges, &mut encoded).unwrap();
    sink.write_all(&encoded).await.unwrap();
    sink.finish().unwrap();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await;
    assert_eq!(answer.unwrap().unwrap(), Frame::Finished);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_gets_the_facts_of_a_file() {
    let bench = bench(false);
    let facts = bench.home.path().join("facts");
    let script = "[[receive]]\ninto = \"scans\"\nrun = [\"/bin/sh\", \"-c\", \"env > '$0'; echo \\u001b[2Jseen\", \"x\"]\n";
    let script = script.replace("$0", &facts.display().to_string());
    std::fs::create_dir(bench.home.path().join("scans")).unwrap();
    follow(&bench, &script);
    arrives(&bench).await;
    let hook = || only(&bench).hook.unwrap().state;
    eventually("the program has ended", || hook() == "done").await;
    let environment = std::fs::read_to_string(&facts).unwrap();
    let item = only(&bench);
    let path = item.path.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"content\n");
    assert!(path.ends_with("scans/f.bin"), "{path:?}");
    for fact in [
        format!("RINGWAY_FILE={}", path.display()),
        "RINGWAY_FROM=peer".to_owned(),
        "RINGWAY_SIZE=8".to_owned(),
        format!("RINGWAY_BLAKE3={}", item.blake3.unwrap()),
        format!("RINGWAY_ID={}", item.id),
        "RINGWAY_RULE=1".to_owned(),
        "RINGWAY_KIND=file".to_owned(),
    ] {
        assert!(
            environment.lines().any(|line| line == fact),
            "{fact} {environment}"
        );
    }
    assert!(!environment.contains("CARGO"), "{environment}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_program_shows_in_the_inbox() {
    let bench = bench(false);
    follow(
        &bench,
        "[[receive]]\nrun = [\"/bin/sh\", \"-c\", \"exit 3\"]\n",
    );
    arrives(&bench).await;
    let hook = || only(&bench).hook.unwrap();
    eventually("the program has failed", || hook().state == "failed").await;
    assert!(hook().note.unwrap().contains("exit status: 3"));
    assert_eq!(only(&bench).state, "received");
}

/// The daemon was killed before the program began, or while it ran.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_runs_once_over_restarts() {
    use crate::transfer::arrival::Hook;
    let bench = bench(false);
    let runs = bench.home.path().join("runs");
    let script = "[[receive]]\nrun = [\"/bin/sh\", \"-c\", \"echo $RINGWAY_ID >> 'RUNS'\"]\n";
    follow(&bench, &script.replace("RUNS", &runs.display().to_string()));
    arrives(&bench).await;
    let hook = |transfers: &Transfers| transfers.inbox().remove(0).hook.unwrap().state;
    eventually("it ran", || hook(&bench.transfers) == "done").await;
    let mut record = bench.state.transfers().unwrap().remove(0);
    let lines = || std::fs::read_to_string(&runs).unwrap().lines().count();
    for (left, then, in_all) in [
        (Hook::Running, "interrupted", 1),
        (Hook::Due, "done", 2),
        (Hook::Done, "done", 2),
    ] {
        record.arrival.as_mut().unwrap().hook = left;
        bench.state.put_transfer(&record).unwrap();
        let again = super::ends::again(&bench);
        eventually("it is taken up", || hook(&again) == then).await;
        assert_eq!(lines(), in_all, "{left:?}");
    }
}
