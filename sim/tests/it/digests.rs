//! What each trial and cell gave, seed by seed, as a digest of all its figures to the last bit.
//!
//! A refactoring of `ringway-dtl` leaves every digest as it is. After a change of what flows do,
//! write the file again, and look at which lines of it have changed:
//!
//! ```sh
//! RINGWAY_SIM_RECORD=1 cargo test -p ringway-sim --test it digests::all -- --ignored
//! ```
//!
//! Powers and roots of floating-point numbers are the C library's: the digests are those of glibc
//! on x86-64.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringway_dtl::Algorithm;
use ringway_sim::trials::{Cell, Figure, table, trials};

/// Makes `digests::all` write the file in place of comparing with it.
const RECORD: &str = "RINGWAY_SIM_RECORD";
/// Seeds that are recorded of each.
const SEEDS: u64 = 2;
/// What is played in every run of the tests, with the first seed: all that priority 0 and N have to
/// do, within some seconds.
const QUICK: [&str; 12] = [
    "jitter",
    "loss-1%",
    "reordering",
    "codel",
    "four-packets",
    "upload-told",
    "route-longer",
    "poisoned-by-tcp",
    "application",
    "alone-changes",
    "raise-10-20",
    "three-packets-20ms",
];

/// Something that is played, and how.
struct Play {
    name: String,
    play: Box<dyn Fn(u64) -> Vec<Figure> + Send + Sync>,
}

/// All trials, and the three things that are played in each cell of the table.
fn plays() -> Vec<Play> {
    let of_trials = trials().into_iter().map(|trial| Play {
        name: trial.name.to_owned(),
        play: Box::new(move |seed| (trial.play)(Algorithm::default(), seed)),
    });
    type OfCell = fn(&Cell, Algorithm, u64) -> Vec<Figure>;
    let kinds: [(&str, OfCell); 3] = [
        ("play", Cell::play),
        ("changes", Cell::changes),
        ("five", Cell::five),
    ];
    let of_cells = table().into_iter().flat_map(move |cell| {
        kinds.map(|(kind, play)| {
            let cell = cell.clone();
            Play {
                name: format!("{}: {kind}", cell.name),
                play: Box::new(move |seed| play(&cell, Algorithm::default(), seed)),
            }
        })
    });
    of_trials.chain(of_cells).collect()
}

/// FNV-1a over names and bits of all figures.
fn digest(figures: &[Figure]) -> u64 {
    let bytes = figures.iter().flat_map(|figure| {
        let value = figure.value.to_bits().to_be_bytes();
        figure.name.bytes().chain(value).collect::<Vec<u8>>()
    });
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/digests.tsv")
}

/// Digests by name and seed.
type Digests = BTreeMap<(String, u64), u64>;

fn recorded() -> Digests {
    let text = std::fs::read_to_string(file()).unwrap();
    let line = |line: &str| {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap().to_owned();
        let seed = fields.next().unwrap().parse().unwrap();
        let digest = u64::from_str_radix(fields.next().unwrap(), 16).unwrap();
        ((name, seed), digest)
    };
    text.lines().map(line).collect()
}

/// Plays these with so many seeds each, on all cores.
fn play(plays: &[Play], seeds: u64) -> Digests {
    let runs: Vec<(&Play, u64)> = plays
        .iter()
        .flat_map(|play| (1..=seeds).map(move |seed| (play, seed)))
        .collect();
    let (next, digests) = (AtomicUsize::new(0), Mutex::new(Digests::new()));
    let work = || {
        while let Some((play, seed)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let digest = digest(&(play.play)(*seed));
            let key = (play.name.clone(), *seed);
            digests.lock().unwrap().insert(key, digest);
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    digests.into_inner().unwrap()
}

/// Fails with the names and seeds of those that are not as recorded.
fn are_as_recorded(played: &Digests) {
    if !cfg!(all(
        target_arch = "x86_64",
        target_os = "linux",
        target_env = "gnu"
    )) {
        return;
    }
    let known = recorded();
    let other: Vec<&(String, u64)> = played
        .iter()
        .filter(|(key, digest)| known.get(*key) != Some(*digest))
        .map(|(key, _)| key)
        .collect();
    let (count, all) = (other.len(), played.len());
    assert!(other.is_empty(), "{count} of {all} are others: {other:#?}");
}

#[test]
fn some() {
    let mut quick = plays();
    quick.retain(|play| QUICK.contains(&play.name.as_str()));
    assert_eq!(quick.len(), QUICK.len(), "a name is no trial's");
    are_as_recorded(&play(&quick, 1));
}

#[test]
#[ignore = "plays every trial and cell: some minutes"]
fn all() {
    let played = play(&plays(), SEEDS);
    if std::env::var_os(RECORD).is_some() {
        let mut text = String::new();
        for ((name, seed), digest) in &played {
            writeln!(text, "{name}\t{seed}\t{digest:016x}").unwrap();
        }
        std::fs::write(file(), text).unwrap();
    }
    are_as_recorded(&played);
    assert_eq!(played.len(), recorded().len(), "the file has others");
}
