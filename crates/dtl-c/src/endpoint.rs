//! Keys and endpoints.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use ringway_transport::dtl::{Endpoint, Key, Trust};

use crate::argument::{self, KEY, given, room, runtime, take, wait, wait_for};
use crate::connection::dtl_connection;
use crate::failure::{Failure, code, handle};

/// How long an endpoint that is freed tells its peers.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// One UDP port.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "as in the header")]
pub struct dtl_endpoint(Endpoint);

/// Makes a secret.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_generate_secret(secret: *mut u8) -> c_int {
    code((|| {
        room(secret, KEY)?.copy_from_slice(&Key::generate()?.to_bytes());
        Ok(())
    })())
}

/// The public key of a secret.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_public_key(secret: *const u8, key: *mut u8) -> c_int {
    code((|| {
        let public = Key::from_bytes(&argument::key(secret)?).peer_key();
        room(key, KEY)?.copy_from_slice(public.as_bytes());
        Ok(())
    })())
}

/// Binds a UDP port.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_endpoint_bind(
    address: *const c_char,
    secret: *const u8,
    trusted: *const u8,
    count: usize,
) -> *mut dtl_endpoint {
    handle((|| {
        let address = argument::address(address)?;
        let key = Key::from_bytes(&argument::key(secret)?);
        let trust = if trusted.is_null() {
            Trust::Anyone
        } else {
            argument::keys(trusted, count)?.into_iter().collect()
        };
        let _inside = runtime()?.enter();
        Ok(dtl_endpoint(Endpoint::bind(address, &key, trust)?))
    })())
}

/// The address that it has.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_endpoint_address(
    endpoint: *const dtl_endpoint,
    text: *mut c_char,
    size: usize,
) -> c_int {
    code((|| {
        let address = given(endpoint)?.0.local_address()?.to_string();
        let with_zero = [address.as_bytes(), &[0]].concat();
        let into = room(text.cast(), size)?.get_mut(..with_zero.len());
        let into = into
            .ok_or_else(|| Failure::from(format!("the address takes {} bytes", with_zero.len())))?;
        into.copy_from_slice(&with_zero);
        Ok(())
    })())
}

/// Goes on at another address.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_endpoint_rebind(
    endpoint: *const dtl_endpoint,
    address: *const c_char,
) -> c_int {
    code((|| {
        let endpoint = given(endpoint)?;
        let address = argument::address(address)?;
        let _inside = runtime()?.enter();
        Ok(endpoint.0.rebind(address)?)
    })())
}

/// Closes it and all its connections.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_endpoint_free(endpoint: *mut dtl_endpoint) {
    if let Some(endpoint) = take(endpoint) {
        endpoint.0.close(0, "");
        let telling = async { tokio::time::timeout(LAST_WORDS, endpoint.0.wait_idle()).await };
        // Peers that cannot be told find out by the silence.
        drop(wait(telling));
    }
}

/// Connects.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_connect(
    endpoint: *const dtl_endpoint,
    address: *const c_char,
    peer_key: *const u8,
    priority: f64,
) -> *mut dtl_connection {
    handle((|| {
        let endpoint = given(endpoint)?;
        let address = argument::address(address)?;
        let trust = if peer_key.is_null() {
            Trust::Anyone
        } else {
            argument::keys(peer_key, 1)?.into_iter().collect()
        };
        let priority = argument::priority(priority)?;
        let connected = wait(endpoint.0.connect(address, trust, priority))?;
        Ok(dtl_connection(connected?))
    })())
}

/// The next connection that a peer makes.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_accept(
    endpoint: *const dtl_endpoint,
    timeout_ms: i64,
) -> *mut dtl_connection {
    handle((|| {
        let accepted = wait_for(timeout_ms, given(endpoint)?.0.accept())?;
        let accepted = accepted.ok_or_else(|| Failure::from("the endpoint is closed"))?;
        Ok(dtl_connection(accepted))
    })())
}
