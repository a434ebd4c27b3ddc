//! What the running gateway does at signals, and what its supervisor sees of it: SIGHUP has it load
//! its policy again, and SIGUSR1 as well as SIGHUP has it open the files of events again.

use std::sync::Arc;

use ringway_gateway::service::{Controller, GatewayStatus, RunningGateway};
use ringway_gateway::verdict::Mode;
use tokio::task::spawn_blocking;

use super::preset::PolicySource;
use crate::signals::{Asked, Reloads};
use crate::supervisor::Supervisor;

/// Obeys for ever. The policy is that of `source`, with which the gateway was started.
pub(super) async fn serve(
    mut reloads: Reloads,
    gateway: &RunningGateway,
    source: &PolicySource,
    supervisor: &Supervisor,
) {
    loop {
        let asked = reloads.next().await;
        if asked == Asked::Reload {
            supervisor.reloading();
        }
        gateway.reopen_events();
        tracing::info!("files of events are opened again");
        if asked == Asked::Reload {
            load(gateway.controller(), source).await;
            let status = look(gateway.controller()).await;
            supervisor.ready(&status.unwrap_or_default());
        }
    }
}

async fn load(controller: &Arc<Controller>, source: &PolicySource) {
    let (controller, source) = (Arc::clone(controller), source.clone());
    // It waits for queues and for tools of the system.
    let work = spawn_blocking(move || {
        let read = source.text();
        let read = read.map_err(|failure| failure.message().to_owned());
        controller.reload(&source.name(), read);
    });
    if let Err(error) = work.await {
        tracing::error!(%error, "loading the policy again ended by a fault: the one before may be at work");
    }
}

/// How the gateway does, in a line; none unless the loop of each queue answers.
pub(super) async fn look(controller: &Arc<Controller>) -> Option<String> {
    let controller = Arc::clone(controller);
    let status = spawn_blocking(move || controller.status()).await.ok()?;
    (status.queues == status.queues_begun).then(|| line(&status))
}

fn line(status: &GatewayStatus) -> String {
    let mode = match status.mode {
        Mode::Observe => "observes",
        Mode::Enforce => "enforces",
    };
    let refused = status.reload.as_ref().filter(|reload| !reload.loaded);
    let refused = refused.map_or_else(String::new, |reload| {
        let reason = reload.notes.first().map_or("", String::as_str);
        format!("the policy was NOT loaded again: {reason}; ")
    });
    format!(
        "{refused}{mode} {} ({} rules), {} flows, {} packets dropped",
        status.policy, status.rules, status.flows, status.dropped
    )
}

#[cfg(test)]
mod tests {
    use ringway_gateway::service::Reload;

    use super::*;

    #[test]
    fn line_begins_with_what_is_wrong() {
        let mut status = GatewayStatus {
            policy: "p.toml".to_owned(),
            rules: 2,
            ..GatewayStatus::default()
        };
        let well = "observes p.toml (2 rules), 0 flows, 0 packets dropped";
        assert_eq!(line(&status), well);
        status.reload = Some(Reload {
            at: 1,
            loaded: false,
            notes: vec!["p.toml:3: no".to_owned(), "more".to_owned()],
        });
        let wrong = format!("the policy was NOT loaded again: p.toml:3: no; {well}");
        assert_eq!(line(&status), wrong);
    }
}
