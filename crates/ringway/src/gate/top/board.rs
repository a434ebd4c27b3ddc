//! Rows with their rates and their last thirty seconds: samples in, lines out, without a terminal.

use std::collections::{HashMap, VecDeque};

use ringway_gateway::accounting::{Grouping, Row, Totals};
use ringway_gateway::service::Top;
use serde::Serialize;

/// Samples of a row's bars: thirty seconds.
pub(super) const BARS: usize = 30;

/// What lines are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The rate of both directions, and the bytes where rates are alike; the largest first.
    #[default]
    Rate,
    /// Flows that live, the most first.
    Flows,
    /// The name.
    Name,
}

/// A row as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    /// What rows stand for.
    pub(super) by: Grouping,
    /// The application, host, rule, class or member.
    pub(super) name: String,
    /// Bytes a second from servers to clients.
    pub(super) rate_to_client: u64,
    /// Bytes a second from clients to servers.
    pub(super) rate_to_server: u64,
    /// Since the gateway began.
    #[serde(flatten)]
    pub(super) totals: Totals,
    /// Bytes a second of both directions, the latest last.
    pub(super) bars: Vec<u64>,
}

/// The latest sample of a row, and those before it.
#[derive(Debug, Default)]
struct Known {
    totals: Totals,
    rate_to_client: u64,
    rate_to_server: u64,
    bars: VecDeque<u64>,
}

/// All rows of one grouping.
#[derive(Debug)]
pub(super) struct Board {
    by: Grouping,
    pub(super) filter: String,
    pub(super) sort: Sort,
    rows: HashMap<String, Known>,
    /// When the latest sample was taken, in milliseconds.
    at_ms: Option<u64>,
    totals: Totals,
    exact: bool,
    lost: u64,
}

impl Board {
    pub(super) fn new(by: Grouping, filter: String) -> Self {
        Self {
            by,
            filter,
            sort: Sort::default(),
            rows: HashMap::new(),
            at_ms: None,
            totals: Totals::default(),
            exact: true,
            lost: 0,
        }
    }

    pub(super) fn by(&self) -> Grouping {
        self.by
    }

    /// Rows stand for something else from now on.
    pub(super) fn regroup(&mut self, by: Grouping) {
        if by != self.by {
            self.by = by;
            self.rows.clear();
            self.at_ms = None;
        }
    }

    /// Takes a sample. One of another grouping, asked for before that was changed, is left out.
    pub(super) fn take(&mut self, top: Top) {
        if top.grouping != self.by {
            return;
        }
        let passed = self.at_ms.map(|at| top.at_ms.saturating_sub(at));
        self.at_ms = Some(top.at_ms);
        self.totals = top.totals;
        self.exact = top.exact;
        self.lost = top.lost;
        for Row { name, totals } in top.rows {
            let is_new = !self.rows.contains_key(&name);
            let known = self.rows.entry(name).or_default();
            // Since when a row that was not there before has its bytes is known from the second
            // sample on.
            let before = if is_new && passed.is_none() {
                totals
            } else {
                known.totals
            };
            let rate = |now: u64, before: u64| {
                let bytes = now.saturating_sub(before);
                let passed = passed.filter(|passed| *passed > 0);
                passed.map_or(0, |passed| bytes.saturating_mul(1_000) / passed)
            };
            known.rate_to_client = rate(totals.to_client.bytes, before.to_client.bytes);
            known.rate_to_server = rate(totals.to_server.bytes, before.to_server.bytes);
            known.totals = totals;
            if passed.is_some() {
                let both = known.rate_to_client.saturating_add(known.rate_to_server);
                known.bars.push_back(both);
                if known.bars.len() > BARS {
                    known.bars.pop_front();
                }
            }
        }
    }

    /// Rows as they are shown: those that the filter leaves, sorted.
    pub(super) fn lines(&self) -> Vec<Line> {
        let filter = self.filter.to_lowercase();
        let wanted = |name: &str| name.to_lowercase().contains(&filter);
        let rows = self.rows.iter().filter(|(name, _)| wanted(name));
        let mut lines: Vec<Line> = rows
            .map(|(name, known)| Line {
                by: self.by,
                name: name.clone(),
                rate_to_client: known.rate_to_client,
                rate_to_server: known.rate_to_server,
                totals: known.totals,
                bars: known.bars.iter().copied().collect(),
            })
            .collect();
        lines.sort_by(|one, other| {
            let by_name = || one.name.cmp(&other.name);
            let rate = |line: &Line| line.rate_to_client.saturating_add(line.rate_to_server);
            let bytes = |line: &Line| line.totals.total().bytes;
            match self.sort {
                Sort::Rate => (rate(other).cmp(&rate(one)))
                    .then_with(|| bytes(other).cmp(&bytes(one)))
                    .then_with(by_name),
                Sort::Flows => (other.totals.live.cmp(&one.totals.live)).then_with(by_name),
                Sort::Name => by_name(),
            }
        });
        lines
    }

    /// One line about all of it.
    pub(super) fn summary(&self) -> String {
        let total = self.totals.total();
        let mut text = format!(
            "{} flows, {} of them live; {} since the gateway began",
            self.totals.flows,
            self.totals.live,
            indicatif::HumanBytes(total.bytes)
        );
        if !self.exact {
            text.push_str(
                "; only packets that reached the gateway: the kernel does not count (`ringway gate doctor`)",
            );
        }
        if self.lost > 0 {
            text.push_str(&format!("; {} reports lost", self.lost));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use ringway_gateway::accounting::{Grouping, Row, Totals};
    use ringway_gateway::flow::Count;
    use ringway_gateway::service::Top;

    use super::{BARS, Board, Sort};

    fn totals(live: u64, to_client: u64) -> Totals {
        Totals {
            flows: 5,
            live,
            to_server: Count::default(),
            to_client: Count {
                packets: 1,
                bytes: to_client,
            },
        }
    }

    fn top(at_ms: u64, rows: &[(&str, Totals)]) -> Top {
        let rows = rows.iter().map(|(name, totals)| Row {
            name: (*name).to_owned(),
            totals: *totals,
        });
        Top {
            at_ms,
            rows: rows.collect(),
            exact: true,
            ..Top::default()
        }
    }

    #[test]
    fn rates_are_of_the_time_between_samples() {
        let mut board = Board::new(Grouping::App, String::new());
        board.take(top(
            1_000,
            &[("tls", totals(2, 1_000_000)), ("dns", totals(9, 10))],
        ));
        board.take(top(
            3_000,
            &[
                ("tls", totals(2, 1_400_000)),
                ("dns", totals(9, 10)),
                // What has come since counts from nothing.
                ("bittorrent", totals(1, 600_000)),
            ],
        ));
        let shown = |board: &Board| -> Vec<(String, u64)> {
            let lines = board.lines().into_iter();
            lines.map(|line| (line.name, line.rate_to_client)).collect()
        };
        let expected = [("bittorrent", 300_000), ("tls", 200_000), ("dns", 0)];
        assert_eq!(
            shown(&board),
            expected.map(|(name, rate)| (name.to_owned(), rate))
        );
        board.sort = Sort::Flows;
        assert_eq!(shown(&board)[0].0, "dns");
        board.filter = "TOR".to_owned();
        assert_eq!(shown(&board).len(), 1);
    }

    #[test]
    fn bars_hold_thirty_seconds() {
        let mut board = Board::new(Grouping::App, String::new());
        for second in 0..100_u64 {
            board.take(top(second * 1_000, &[("tls", totals(1, second * 500))]));
        }
        let lines = board.lines();
        assert_eq!(lines[0].bars, [500; BARS]);
    }
}
