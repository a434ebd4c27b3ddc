//! What C hands in, checked.

use std::ffi::{CStr, c_char};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use ringway_transport::dtl::{PeerKey, Priority};
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// Threads that work behind all calls.
const THREADS: usize = 2;

/// Bytes of a secret, and of a key.
pub(crate) const KEY: usize = 32;

static RUNTIME: LazyLock<Result<Runtime, String>> = LazyLock::new(|| {
    let built = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("dtl")
        .enable_all()
        .build();
    built.map_err(|error| format!("cannot start threads: {error}"))
});

/// The runtime behind all calls.
pub(crate) fn runtime() -> Result<&'static Runtime, Failure> {
    RUNTIME.as_ref().map_err(Failure::from)
}

/// Waits for something, here.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(runtime()?.block_on(work))
}

/// Waits for so long; for ever, if it is negative.
pub(crate) fn wait_for<T>(timeout_ms: i64, work: impl Future<Output = T>) -> Result<T, Failure> {
    let Ok(most) = u64::try_from(timeout_ms) else {
        return wait(work);
    };
    let limited = async { tokio::time::timeout(Duration::from_millis(most), work).await };
    wait(limited)?.map_err(|_| Failure::from("nothing came within the time given"))
}

/// A handle, or anything else that is read.
pub(crate) fn given<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the header demands a handle of this kind that is not freed, or a valid object.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::from("a handle is NULL"))
}

/// Bytes to read.
pub(crate) fn bytes<'a>(pointer: *const u8, size: usize) -> Result<&'a [u8], Failure> {
    if size == 0 {
        return Ok(&[]);
    }
    check(pointer, size)?;
    // SAFETY: the header demands `size` bytes there, that are not written to meanwhile.
    Ok(unsafe { std::slice::from_raw_parts(pointer, size) })
}

/// Bytes to write. They must hold something already.
pub(crate) fn room<'a>(pointer: *mut u8, size: usize) -> Result<&'a mut [u8], Failure> {
    if size == 0 {
        return Ok(&mut []);
    }
    check(pointer, size)?;
    // SAFETY: the header demands room for `size` bytes there, that only this call uses.
    unsafe {
        std::ptr::write_bytes(pointer, 0, size);
        Ok(std::slice::from_raw_parts_mut(pointer, size))
    }
}

/// Writes a value where C wants it.
pub(crate) fn put<T>(pointer: *mut T, value: T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::from("the place of a result is NULL"));
    }
    // SAFETY: the header demands room for one, that only this call uses.
    unsafe { pointer.write(value) };
    Ok(())
}

fn check(pointer: *const u8, size: usize) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::from("a buffer is NULL"));
    }
    isize::try_from(size).map_err(|_| Failure::from("a size is larger than memory"))?;
    Ok(())
}

/// A secret or a key.
pub(crate) fn key(pointer: *const u8) -> Result<[u8; KEY], Failure> {
    Ok(bytes(pointer, KEY)?.try_into()?)
}

/// Several keys, one after the other.
pub(crate) fn keys(pointer: *const u8, count: usize) -> Result<Vec<PeerKey>, Failure> {
    let size = count.checked_mul(KEY);
    let size = size.ok_or_else(|| Failure::from("too many keys"))?;
    let (keys, _) = bytes(pointer, size)?.as_chunks::<KEY>();
    Ok(keys.iter().copied().map(PeerKey::from_bytes).collect())
}

/// An address with a port.
pub(crate) fn address(text: *const c_char) -> Result<SocketAddr, Failure> {
    if text.is_null() {
        return Err(Failure::from("an address is NULL"));
    }
    // SAFETY: the header demands a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(60).collect();
        Failure::from(format!(
            "{shown:?} is no address: write it as 192.0.2.1:4000"
        ))
    })
}

/// A priority.
pub(crate) fn priority(flows: f64) -> Result<Priority, Failure> {
    Ok(Priority::new(flows)?)
}

/// Frees a handle; nothing, if it is NULL.
pub(crate) fn take<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: the header demands a handle that `handle` made and that is freed once.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}
