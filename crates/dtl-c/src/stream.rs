//! Streams.

use std::ffi::{c_int, c_void};

use ringway_transport::dtl::{PriorityHandle, Stream, StreamReader, StreamWriter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex;

use crate::argument::{self, bytes, given, room, runtime, take, wait};
use crate::failure::{code, count};

/// A stream, of which one thread may send while another receives.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "as in the header")]
pub struct dtl_stream {
    reader: Mutex<StreamReader>,
    writer: Mutex<StreamWriter>,
    priority: PriorityHandle,
}

impl dtl_stream {
    pub(crate) fn new(stream: Stream) -> dtl_stream {
        let priority = stream.handle();
        let (reader, writer) = stream.into_split();
        dtl_stream {
            reader: Mutex::new(reader),
            writer: Mutex::new(writer),
            priority,
        }
    }
}

/// Sends all of it.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_send(stream: *const dtl_stream, data: *const c_void, size: usize) -> c_int {
    code((|| {
        let (stream, data) = (given(stream)?, bytes(data.cast(), size)?);
        let sending = async { stream.writer.lock().await.write_all(data).await };
        Ok(wait(sending)??)
    })())
}

/// Receives at least a byte.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_recv(stream: *const dtl_stream, data: *mut c_void, size: usize) -> isize {
    count((|| {
        let (stream, into) = (given(stream)?, room(data.cast(), size)?);
        let receiving = async { stream.reader.lock().await.read(into).await };
        Ok(wait(receiving)??)
    })())
}

/// Changes the stream's priority.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_stream_set_priority(stream: *const dtl_stream, priority: f64) -> c_int {
    code((|| {
        let stream = given(stream)?;
        stream.priority.set_priority(argument::priority(priority)?);
        Ok(())
    })())
}

/// Says that nothing more comes, and waits until the peer has everything.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_finish(stream: *const dtl_stream) -> c_int {
    code((|| {
        let stream = given(stream)?;
        let finishing = async { stream.writer.lock().await.finish().await };
        Ok(wait(finishing)??)
    })())
}

/// Frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_stream_free(stream: *mut dtl_stream) {
    let _inside = runtime().map(tokio::runtime::Runtime::enter);
    drop(take(stream));
}
