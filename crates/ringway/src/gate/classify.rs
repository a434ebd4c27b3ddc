//! `ringway gate classify`: which application each flow of a capture is.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Read};
use std::net::SocketAddr;
use std::path::Path;

use ringway_gateway::flow::TableBounds;
use ringway_gateway::service::ClassifierConfig;
use ringway_gateway::{
    CaptureError, CaptureReader, FlowRecord, Pipeline, Summary, classify_capture,
};
use serde::Serialize;

use super::rules;
use crate::cli::ClassifyArgs;
use crate::context::Context;
use ringway_terminal::Output;
use ringway_terminal::{Failure, report_line};

/// Reads all captures, one after another; a broken one does not keep the others from being read.
pub(crate) fn classify(context: &Context, args: &ClassifyArgs) -> Result<(), Failure> {
    for file in &args.files {
        check(file)?;
    }
    if args.files.iter().filter(|file| is_stdin(file)).count() > 1 {
        return Err(Failure::usage("`-` is stdin, which can be read only once"));
    }
    let mut printer = Printer {
        output: context.output,
        classifier: rules::classifier(rules::signatures(&args.look.signatures)?, &args.look)?,
        failure: None,
        heading: false,
    };
    let mut broken = 0_usize;
    for file in &args.files {
        if let Err(error) = printer.capture(file) {
            broken += 1;
            report_line(&error.to_string(), false, context.output.json());
        }
        if let Some(failure) = printer.failure.take() {
            return Err(failure);
        }
    }
    match broken {
        0 => Ok(()),
        // Each broken capture has had its line already; one more says how many, where that is news.
        1 if args.files.len() == 1 => Err(Failure::Reported),
        _ => Err(Failure::failed(format_args!(
            "{broken} of {} captures could not be read to their end",
            args.files.len()
        ))),
    }
}

/// A name that is no readable file is the user's mistake, found before anything is printed.
fn check(file: &Path) -> Result<(), Failure> {
    let wrong = |reason: &dyn std::fmt::Display| {
        Failure::usage(format_args!(
            "`{}` cannot be read: {reason}",
            file.display()
        ))
    };
    if is_stdin(file) {
        let terminal = io::stdin().is_terminal();
        let mend = "it is stdin, and stdin is the terminal: `ringway gate classify - < FILE`";
        return if terminal { Err(wrong(&mend)) } else { Ok(()) };
    }
    let metadata = std::fs::metadata(file).map_err(|error| wrong(&error))?;
    if metadata.is_dir() {
        return Err(wrong(&"it is a folder; name the captures in it"));
    }
    std::fs::File::open(file).map_err(|error| wrong(&error))?;
    Ok(())
}

/// Whether this name stands for stdin. A file of that name is `./-`.
fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes flows as they come; after the first failure it only remembers it.
struct Printer {
    output: Output,
    classifier: ClassifierConfig,
    failure: Option<Failure>,
    heading: bool,
}

impl Printer {
    fn capture(&mut self, file: &Path) -> Result<(), CaptureError> {
        let name = file.display().to_string();
        if is_stdin(file) {
            let reader = CaptureReader::new(&name, io::stdin().lock())?;
            return self.flows(name, reader);
        }
        self.flows(name, CaptureReader::open(file)?)
    }

    fn flows<R: Read>(
        &mut self,
        name: String,
        reader: CaptureReader<R>,
    ) -> Result<(), CaptureError> {
        let pipeline = Pipeline::new(self.classifier.classifier.clone(), TableBounds::default());
        for (endpoint, member) in &self.classifier.members {
            pipeline.surroundings().know_member(*endpoint, member);
        }
        match classify_capture(&name, reader, pipeline, &mut |flow| self.flow(&flow)) {
            Ok(summary) => {
                report_summary(self.output, name, &summary);
                Ok(())
            }
            Err(interrupted) => {
                report_summary(self.output, name, &interrupted.summary);
                Err(interrupted.error)
            }
        }
    }

    fn flow(&mut self, flow: &FlowRecord) {
        if self.failure.is_some() {
            return;
        }
        self.failure = self.print(flow).err();
        if matches!(self.failure, Some(Failure::OutputClosed)) {
            // The rest may be gigabytes that are not wanted, and there is nothing to tidy up.
            std::process::exit(0);
        }
    }

    fn print(&mut self, flow: &FlowRecord) -> Result<(), Failure> {
        if self.output.json() {
            return self.output.plain_object(flow);
        }
        if !self.heading {
            self.heading = true;
            self.output.line(&columns([
                "APP",
                "CONFIDENCE",
                "L4",
                "CLIENT",
                "SERVER",
                "PACKETS",
                "BYTES",
                "EVIDENCE",
            ]))?;
        }
        let client = SocketAddr::new(flow.client_ip, flow.client_port).to_string();
        let server = SocketAddr::new(flow.server_ip, flow.server_port).to_string();
        let (packets, bytes) = (flow.packets.to_string(), flow.bytes.to_string());
        let (l4, confidence) = (flow.l4.name(), flow.confidence.name());
        let evidence = printable(&flow.evidence);
        self.output.line(&columns([
            &flow.app, confidence, l4, &client, &server, &packets, &bytes, &evidence,
        ]))
    }
}

/// What strangers' packets may do to a terminal is nothing.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Fixed widths, because lines are printed while the capture is still being read.
fn columns(cells: [&str; 8]) -> String {
    let [
        app,
        confidence,
        l4,
        client,
        server,
        packets,
        bytes,
        evidence,
    ] = cells;
    let line = format!(
        "{app:<12} {confidence:<10} {l4:<3} {client:<28} {server:<28} {packets:>8} {bytes:>10}  {evidence}"
    );
    line.trim_end().to_owned()
}

/// Totals of one capture, as far as it could be read.
#[derive(Serialize)]
struct CaptureObject {
    file: String,
    flows: u64,
    packets: u64,
    in_flows: u64,
    flows_evicted: u64,
    records_dropped: u64,
    skipped: BTreeMap<&'static str, u64>,
}

fn report_summary(output: Output, file: String, summary: &Summary) {
    let counters = &summary.counters;
    let object = CaptureObject {
        file,
        flows: summary.flows,
        packets: counters.packets,
        in_flows: counters.in_flows,
        flows_evicted: counters.evicted,
        records_dropped: counters.records_dropped,
        skipped: counters
            .skips()
            .map(|(reason, count)| (reason.name(), count))
            .collect(),
    };
    output.aside("ringway.capture/1", &object, || {
        format!("{}: {} flows, {counters}", object.file, object.flows)
    });
}
