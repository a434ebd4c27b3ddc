//! Which seeds a test runs with.

/// The environment variable that names the one seed to run with.
pub const SEED_VARIABLE: &str = "RINGWAY_SIM_SEED";

/// The seeds 1 to `count`; or the one that [`SEED_VARIABLE`] names, to play a failed run again.
///
/// # Panics
///
/// When the variable is set and is no number: a test must not quietly run something else.
#[must_use]
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => match text.parse() {
            Ok(seed) => vec![seed],
            Err(error) => panic!("{SEED_VARIABLE}={text} is no seed: {error}"),
        },
        Err(_) => (1..=count).collect(),
    }
}

/// 32 bytes from a seed and a number that tells uses of it apart.
#[must_use]
pub fn spread(seed: u64, use_number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    let source = seed
        .to_be_bytes()
        .into_iter()
        .chain(use_number.to_be_bytes());
    bytes
        .iter_mut()
        .zip(source)
        .for_each(|(to, from)| *to = from);
    bytes
}
