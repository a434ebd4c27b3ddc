//! Which threads come first where several want the same core. A thread begins as the one that
//! starts it.
//!
//! An administrator who has set a nice value knows better: it stays.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

use crate::limits::{QUEUE_NICENESS, SCAN_NICENESS};

/// The nice value of a process without another one.
const ORDINARY: i32 = 0;

/// Lets this thread, and those that it starts, come before others: packets wait for their answers.
///
/// # Errors
/// It may not: that takes CAP_SYS_NICE, or a limit on nice values that is as low (RLIMIT_NICE). It
/// goes on as before.
pub fn raise_priority() -> io::Result<()> {
    change(ORDINARY, QUEUE_NICENESS)
}

/// Lets this thread be as others, though one of those that come first has started it.
pub fn reset_priority() {
    // Downwards everybody may.
    change(QUEUE_NICENESS, ORDINARY).ok();
}

/// Lets this thread come behind others.
pub(super) fn lower_priority() {
    // Who is further behind stays there.
    if getpriority_process(None).is_ok_and(|now| now < SCAN_NICENESS) {
        setpriority_process(None, SCAN_NICENESS).ok();
    }
}

fn change(from: i32, to: i32) -> io::Result<()> {
    if getpriority_process(None)? == from {
        setpriority_process(None, to)?;
    }
    Ok(())
}
