//! Figures for Prometheus, over HTTP at an address of their own.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use ringway_gateway::quota::QuotaTotals;
use ringway_gateway::service::{Controller, Ended, GatewayStatus};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::limits::{METRICS_PAUSE, METRICS_READERS, METRICS_TIME};

/// OpenMetrics, as Prometheus asks for it.
const KIND: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Answers for ever, [`METRICS_READERS`] at once: one that is slow keeps none from their figures.
pub(super) async fn serve(listener: TcpListener, controller: &Arc<Controller>) {
    let permits = Arc::new(Semaphore::new(METRICS_READERS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no connection for metrics can be accepted at the moment");
                sleep(METRICS_PAUSE).await;
                continue;
            }
        };
        let controller = Arc::clone(controller);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &controller));
            let connection = http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            match timeout(METRICS_TIME, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection for metrics was lost"),
                Err(_) => tracing::debug!("a connection for metrics was too slow"),
            }
            drop(permit);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    controller: &Arc<Controller>,
) -> Result<Response<String>, Infallible> {
    let refuse = |status: StatusCode| {
        let mut response = Response::new(String::new());
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return Ok(refuse(StatusCode::NOT_FOUND));
    }
    if request.method() != Method::GET {
        return Ok(refuse(StatusCode::METHOD_NOT_ALLOWED));
    }
    let asked = Arc::clone(controller);
    // It waits for the queues.
    let figures = spawn_blocking(move || text(&asked.status(), &asked.ended()));
    Ok(match figures.await {
        Ok(Ok(text)) => {
            let mut response = Response::new(text);
            response.headers_mut().insert(CONTENT_TYPE, KIND);
            response
        }
        Ok(Err(fmt::Error)) | Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR),
    })
}

/// All figures in OpenMetrics' text.
pub(super) fn text(status: &GatewayStatus, ended: &[Ended]) -> Result<String, fmt::Error> {
    // A registry lives for one scrape: the gateway counts, and this only shows it.
    let mut registry = Registry::with_prefix("ringway_gate");
    let mut count = |name: &'static str, help: &'static str, value| {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    };
    count(
        "packets",
        "Packets that were queued for a verdict",
        status.packets,
    );
    count(
        "dropped",
        "Packets that were dropped of them",
        status.dropped,
    );
    count(
        "scanned",
        "Windows of files that were scanned",
        status.scanned,
    );
    count("resets", "Resets that were sent", status.resets);
    count(
        "rules_put_back",
        "Times that another program had changed the packet filter's rules, and they were put back",
        status.rules_put_back,
    );
    count(
        "resets_failed",
        "Resets that could not be sent",
        status.resets_failed,
    );
    count(
        "evicted",
        "Flows that were forgotten early because there were too many",
        status.evicted,
    );
    count("events", "Events that were written down", status.events);
    count("events_lost", "Events that were lost", status.events_lost);
    count(
        "eve_lost",
        "Events that could not be written as EVE, counted for each place",
        status.eve_lost,
    );
    count(
        "events_left_out",
        "Events that were not written because there were too many",
        status.events_left_out,
    );
    count(
        "events_forgotten",
        "Events that were forgotten before their time, to make room",
        status.events_forgotten,
    );
    count(
        "flows_missing",
        "Packets whose flow was not there, by a fault of this program",
        status.flows_missing,
    );
    other_ways(status, &mut count);
    levels(status, &mut registry);
    flows(&mut registry, ended);
    quotas(&mut registry, status);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// What there is at the moment.
fn levels(status: &GatewayStatus, registry: &mut Registry) {
    let mut gauge = |name, help, value| {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    gauge("flows", "Flows that are not over", status.flows);
    if let Some(ended) = status.terminated {
        gauge(
            "terminated_open",
            "Connections that end at the gateway and go on",
            ended.open,
        );
    }
    gauge(
        "rules_not_looked_after",
        "1: the last check whether the packet filter's rules are in force failed",
        u64::from(status.rules_not_looked_after.is_some()),
    );
    let refused = (status.reload.as_ref()).is_some_and(|reload| !reload.loaded);
    gauge(
        "reload_refused",
        "1: the policy was to be loaded again and was not, the one before is at work",
        u64::from(refused),
    );
    gauge("held", "Packets that wait for a scan", status.held);
    gauge("queues", "Queues that are at work", status.queues);
    gauge(
        "queues_begun",
        "Queues that should be at work",
        status.queues_begun,
    );
    gauge(
        "enforcing",
        "1: the policy is carried out, 0: it is observed only",
        u64::from(status.mode == ringway_gateway::verdict::Mode::Enforce),
    );
    gauge("uptime_seconds", "Time since the start", status.uptime_s);
}

/// What did not go by the queues.
fn other_ways(status: &GatewayStatus, count: &mut impl FnMut(&'static str, &'static str, u64)) {
    if let Some(kernel) = status.in_kernel {
        count(
            "kernel_passed",
            "Packets of undecided flows that the kernel passed without asking",
            kernel.passed,
        );
        count(
            "kernel_refused",
            "New connections that match a blocked one, dropped by the kernel without asking",
            kernel.refused,
        );
        count(
            "kernel_lost",
            "Flows that came from the kernel without their beginning",
            kernel.lost,
        );
    }
    if let Some(ended) = status.terminated {
        count(
            "terminated",
            "Connections that ended at the gateway, with sockets of its own",
            ended.taken,
        );
        count(
            "terminated_reset",
            "Connections that ended at the gateway and were reset",
            ended.reset,
        );
        count(
            "terminated_full",
            "Times that there was no place for connections that end at the gateway",
            ended.full,
        );
    }
}

/// Quotas, by rule.
fn quotas(registry: &mut Registry, status: &GatewayStatus) {
    let of = |rule: &str| vec![("rule".to_owned(), rule.to_owned())];
    let level = |value: &dyn Fn(&QuotaTotals) -> u64| {
        let family = Family::<Vec<(String, String)>, Gauge>::default();
        for one in &status.quotas {
            let value = i64::try_from(value(one)).unwrap_or(i64::MAX);
            family.get_or_create(&of(&one.rule)).set(value);
        }
        family
    };
    registry.register(
        "quotas_counted",
        "Hosts and members that have used some of the quota of a rule in its period",
        level(&|one| one.counted),
    );
    registry.register(
        "quotas_over",
        "Hosts and members that have used the quota of a rule up",
        level(&|one| one.over),
    );
    let passed = Family::<Vec<(String, String)>, Counter>::default();
    for one in &status.quotas {
        passed.get_or_create(&of(&one.rule)).inc_by(one.passed);
    }
    registry.register(
        "quotas_passed",
        "Times that the quota of a rule was used up",
        passed,
    );
}

/// Flows that are over, by kind.
fn flows(registry: &mut Registry, ended: &[Ended]) {
    let by_kind = |value: &dyn Fn(&Ended) -> u64| {
        let family = Family::<Vec<(String, String)>, Counter>::default();
        for one in ended {
            let labels = vec![
                ("app".to_owned(), one.app.clone()),
                ("action".to_owned(), one.action.to_owned()),
            ];
            family.get_or_create(&labels).inc_by(value(one));
        }
        family
    };
    registry.register(
        "flows_ended",
        "Flows that are over, by application and by what the policy said of them",
        by_kind(&|one| one.flows),
    );
    registry.register(
        "flows_ended_bytes",
        "Bytes of these flows that were asked about",
        by_kind(&|one| one.bytes),
    );
}

#[cfg(test)]
mod tests;
