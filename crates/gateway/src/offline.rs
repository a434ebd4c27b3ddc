//! Captures through the pipeline.

use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use crate::capture::{CaptureError, CaptureReader};
use crate::classify::{Bounds, Classifier, SignatureError, SignatureSet};
use crate::flow::TableBounds;
use crate::packet::Counters;
use crate::pipeline::Pipeline;
use crate::record::FlowRecord;

/// Totals of a capture that was read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Flows delivered.
    pub flows: u64,
    /// Packets seen and passed over.
    pub counters: Counters,
}

/// A capture that could not be read to its end, with the totals up to there.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Interrupted {
    /// What is wrong with the capture.
    #[source]
    pub error: CaptureError,
    /// Totals of the packets before.
    pub summary: Box<Summary>,
}

/// Classifies a capture file with the built-in signatures, one record per flow.
///
/// ```no_run
/// use std::path::Path;
/// let summary = ringway_gateway::classify_file(Path::new("border.pcap"), &mut |flow| {
///     eprintln!("{} {}", flow.app, flow.server_ip);
/// })?;
/// # let _ = summary;
/// # Ok::<(), ringway_gateway::CaptureError>(())
/// ```
///
/// # Errors
/// The capture cannot be read, or not to its end. Flows of the packets before the damage are
/// delivered first.
pub fn classify_file(
    path: &Path,
    deliver: &mut dyn FnMut(FlowRecord),
) -> Result<Summary, CaptureError> {
    let name = path.display().to_string();
    let reader = CaptureReader::open(path)?;
    classify_capture(&name, reader, built_in_pipeline(), deliver)
        .map_err(|interrupted| interrupted.error)
}

/// Classifies a capture from any input; `name` is what records and errors call it.
///
/// # Errors
/// The capture cannot be read, or not to its end. Flows of the packets before the damage are
/// delivered first.
pub fn classify_reader(
    name: &str,
    input: impl Read,
    deliver: &mut dyn FnMut(FlowRecord),
) -> Result<Summary, Interrupted> {
    let reader = CaptureReader::new(name, input).map_err(|error| Interrupted {
        error,
        summary: Box::default(),
    })?;
    classify_capture(name, reader, built_in_pipeline(), deliver)
}

/// Classifies an opened capture through a given pipeline.
///
/// # Errors
/// The capture cannot be read to its end. Flows of the packets before the damage are delivered
/// first.
pub fn classify_capture<R: Read>(
    name: &str,
    mut reader: CaptureReader<R>,
    mut pipeline: Pipeline,
    deliver: &mut dyn FnMut(FlowRecord),
) -> Result<Summary, Interrupted> {
    let mut flows = 0_u64;
    let mut drain = |pipeline: &mut Pipeline| {
        while let Some(mut record) = pipeline.poll_flow() {
            record.file = Some(name.to_owned());
            flows = flows.saturating_add(1);
            deliver(record);
        }
    };
    let ended = loop {
        match reader.next_packet() {
            Ok(Some(packet)) => {
                pipeline.handle_packet(packet.timestamp, packet.link, packet.bytes);
                drain(&mut pipeline);
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // After damage, too: the flows of the packets before it are delivered.
    pipeline.finish();
    drain(&mut pipeline);
    let summary = Summary {
        flows,
        counters: pipeline.counters().clone(),
    };
    match ended {
        Ok(()) => Ok(summary),
        Err(error) => Err(Interrupted {
            error,
            summary: Box::new(summary),
        }),
    }
}

/// A pipeline with the built-in signatures and the default bounds.
#[must_use]
pub fn built_in_pipeline() -> Pipeline {
    Pipeline::new(built_in_classifier(), TableBounds::default())
}

/// The built-in signatures, compiled once; copies share the automaton.
#[must_use]
pub fn built_in_classifier() -> Classifier {
    static BUILT_IN: LazyLock<Classifier> = LazyLock::new(compile_built_in);
    BUILT_IN.clone()
}

#[expect(
    clippy::expect_used,
    reason = "the built-in signatures are part of the program, and a test compiles them"
)]
fn compile_built_in() -> Classifier {
    let compiled: Result<Classifier, SignatureError> =
        Classifier::new(&SignatureSet::built_in(), Bounds::default());
    compiled.expect("the built-in signatures compile")
}
