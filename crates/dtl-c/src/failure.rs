//! Failures as C sees them: a value that says that there is one, and words for it.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;

thread_local! {
    /// Of this thread's last call that failed.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why a call failed, in words.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}

impl Failure {
    fn keep(self) {
        // What ends a text in C ends it here.
        let text = self.0.replace('\0', "\u{fffd}");
        let text = CString::new(text).unwrap_or_default();
        LAST.with(|last| last.replace(text));
    }
}

/// A handle, or NULL.
pub(crate) fn handle<T>(result: Result<T, Failure>) -> *mut T {
    match result {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(failure) => {
            failure.keep();
            std::ptr::null_mut()
        }
    }
}

/// 0, or -1.
pub(crate) fn code(result: Result<(), Failure>) -> c_int {
    count(result.map(|()| 0)).try_into().unwrap_or(-1)
}

/// A number, or -1.
pub(crate) fn count(result: Result<usize, Failure>) -> isize {
    match result {
        // No buffer is longer.
        Ok(value) => value.try_into().unwrap_or(isize::MAX),
        Err(failure) => {
            failure.keep();
            -1
        }
    }
}

/// Why this thread's last call that failed did so.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
