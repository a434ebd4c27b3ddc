//! Step 7: captures classified by `gate classify`, the built-in samples against what they are known
//! to hold.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ringway_gateway::samples::{self, Expected};
use serde_json::{Value, json};

use super::report::{Check, Done, Report};
use super::stage::Stage;
use crate::cli::DemoArgs;
use ringway_terminal::Failure;

/// The whole step.
pub(super) async fn step(
    stage: &Stage,
    report: &mut Report,
    args: &DemoArgs,
) -> Result<(), Failure> {
    report.begin("classifying captures");
    let result = classify(stage, args).await;
    report.end("captures", result)
}

async fn classify(stage: &Stage, args: &DemoArgs) -> Result<Done, Failure> {
    let folder = stage.folder().join("captures");
    let written = std::fs::create_dir_all(&folder).and_then(|()| samples::write(&folder));
    let files = written.map_err(|error| {
        Failure::failed(format_args!("writing the sample captures failed: {error}"))
    })?;
    let flows = run(stage, &files).await?;
    let expected = samples::expected();
    let wrong: Vec<String> = expected
        .iter()
        .filter(|one| !is_named(one, &flows))
        .map(describe)
        .collect();
    let good = expected.len() - wrong.len();
    let figure = match wrong.first() {
        None => format!("{good} of {} flows", expected.len()),
        Some(first) => format!("{good} of {} flows; not {first}", expected.len()),
    };
    let mut checks = vec![Check::new(
        "samples made from published message formats: every flow named rightly",
        wrong.is_empty() && flows.len() == expected.len(),
        figure,
    )];
    let mut own = Vec::new();
    for capture in &args.captures {
        let (check, flows) = user_capture(stage, capture).await;
        checks.push(check);
        own.extend(flows);
    }
    Ok(Done {
        shown: Vec::new(),
        text: format!(
            "{} sample captures and {} given ones classified",
            files.len(),
            args.captures.len()
        ),
        checks,
        details: json!({ "flows": flows, "given_flows": own }),
    })
}

async fn run(stage: &Stage, files: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let names: Vec<String> = files
        .iter()
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    let mut arguments = vec!["gate", "classify"];
    arguments.extend(names.iter().map(String::as_str));
    stage.program.call(&stage.owner(), &arguments).await
}

/// A capture of the user's own: its content is not known, but it must be readable.
async fn user_capture(stage: &Stage, capture: &Path) -> (Check, Vec<Value>) {
    let name = format!("{} read and classified", capture.display());
    match run(stage, &[capture.to_owned()]).await {
        Ok(flows) => {
            let known = flows.iter().filter(|flow| flow["app"] != "unknown").count();
            (
                Check::new(
                    name,
                    true,
                    format!("{known} of {} flows named", flows.len()),
                ),
                flows,
            )
        }
        Err(failure) => (Check::new(name, false, failure.message()), Vec::new()),
    }
}

/// The command's record of the expected flow has the expected application.
fn is_named(expected: &Expected, flows: &[Value]) -> bool {
    let is_flow = |flow: &&Value| {
        let file = flow["file"]
            .as_str()
            .map(Path::new)
            .and_then(Path::file_name);
        let is_side = |name: &str, side: SocketAddr| {
            flow[format!("{name}_ip")] == side.ip().to_string()
                && flow[format!("{name}_port")] == side.port()
        };
        let sides = is_side("client", expected.client) && is_side("server", expected.server);
        file == Some(expected.file.as_ref()) && flow["l4"] == expected.l4.name() && sides
    };
    let mut found = flows.iter().filter(is_flow);
    found.next().is_some_and(|flow| flow["app"] == expected.app) && found.next().is_none()
}

fn describe(expected: &Expected) -> String {
    format!(
        "{} ({} → {}) in {}",
        expected.app, expected.client, expected.server, expected.file
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_needs_right_sides_and_application() {
        let folder = tempfile::tempdir().unwrap();
        samples::write(folder.path()).unwrap();
        let expected = samples::expected().into_iter().next().unwrap();
        let flow = |app: &str, port: u16| {
            json!({
                "file": folder.path().join(expected.file), "l4": expected.l4.name(), "app": app,
                "client_ip": expected.client.ip(), "client_port": port,
                "server_ip": expected.server.ip(), "server_port": expected.server.port(),
            })
        };
        let port = expected.client.port();
        assert!(is_named(&expected, &[flow(expected.app, port)]));
        assert!(!is_named(&expected, &[flow("other", port)]));
        assert!(!is_named(
            &expected,
            &[flow(expected.app, port.wrapping_add(1))]
        ));
    }
}
