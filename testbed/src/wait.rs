//! Waiting without a fixed time: looking again and again until something holds.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::TestbedError;

/// The longest pause after a look that takes long.
const MOST: Duration = Duration::from_secs(1);

/// Time between the first two looks; it doubles from look to look.
const SHORTEST: Duration = Duration::from_millis(10);

/// The most time between two looks, unless a look itself takes longer: what is waited for needs the
/// processor too.
const LONGEST: Duration = Duration::from_millis(200);

/// Calls `look` until it gives a value, at most for `deadline`; its last complaint becomes the
/// error.
///
/// # Errors
/// When nothing came in time.
pub fn wait_until<T>(
    deadline: Duration,
    mut look: impl FnMut() -> Result<T, TestbedError>,
) -> Result<T, TestbedError> {
    let end = Instant::now() + deadline;
    let mut pause = SHORTEST;
    loop {
        let begun = Instant::now();
        match look() {
            Ok(value) => return Ok(value),
            Err(complaint) if Instant::now() >= end => {
                return Err(TestbedError(format!(
                    "after {} s still: {complaint}",
                    deadline.as_secs()
                )));
            }
            Err(_) => {
                sleep(pause.max(begun.elapsed().min(MOST)));
                pause = LONGEST.min(2 * pause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complaint_is_told() {
        let mut looks = 0;
        let result = wait_until(Duration::from_millis(1), || -> Result<(), _> {
            looks += 1;
            Err(TestbedError(format!("look {looks}")))
        });
        let said = result.unwrap_err().to_string();
        assert!(said.ends_with(&format!("look {looks}")), "{said}");
    }

    #[test]
    fn it_looks_until_something_holds() {
        let mut looks = 0;
        let result = wait_until(Duration::from_secs(60), || {
            looks += 1;
            if looks == 3 {
                Ok(looks)
            } else {
                Err(TestbedError("not yet".to_owned()))
            }
        });
        assert_eq!(result.unwrap(), 3);
    }
}
