//! What all hosts and members have used, by rule.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::Subject;
use super::counter::Counter;
use super::over::{AboveNow, AboveRule};
use crate::limits::{MAX_QUOTA_COUNTERS, MAX_READY};
use crate::policy::{Over, Per, Period, Policy, Quota};

/// A quota that was just used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The rule.
    pub rule: String,
    /// Whose quota.
    pub subject: Subject,
    /// The quota.
    pub quota: Quota,
    /// Bytes that were used by then.
    pub used: u64,
    /// When the next period begins, since the Unix epoch.
    pub resets: Duration,
}

/// What one host or member has used of the quota of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRow {
    /// The rule.
    pub rule: String,
    /// Of what `of` is one.
    pub per: Per,
    /// The host's address, or the member's name.
    pub of: String,
    /// Bytes of this period.
    pub used: u64,
    /// Bytes that it may use.
    pub quota: u64,
    /// The period.
    pub period: Period,
    /// The quota is used up.
    pub over: bool,
    /// The class above the quota; absent where flows are blocked then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_class: Option<String>,
    /// When the next period begins, in seconds since the Unix epoch.
    pub resets_s: u64,
}

/// What there is of the quota of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaTotals {
    /// The rule.
    pub rule: String,
    /// Hosts or members that have used some of it in this period.
    pub counted: u64,
    /// Those of them that are above it.
    pub over: u64,
    /// How often it was passed since the start.
    pub passed: u64,
}

/// A counter as it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCounter {
    /// The rule.
    pub rule: String,
    /// Whose bytes they are.
    pub subject: Subject,
    /// When the period began that they are of, since the Unix epoch.
    pub since: Duration,
    /// Bytes; 0: the counter is not there any more.
    pub used: u64,
}

/// One rule and what was counted for it.
#[derive(Debug)]
struct Rule {
    /// `None`: the policy at work has no quota of this name.
    quota: Option<Quota>,
    /// What the class above the quota is called.
    over_class: Option<String>,
    /// When the period at hand began and ends.
    bounds: [Duration; 2],
    counters: HashMap<Subject, Counter>,
    passed: u64,
}

impl Rule {
    /// Without a quota it is not known of what period counts are; none is longer than this.
    fn period(&self) -> Period {
        self.quota.map_or(Period::Month, |quota| quota.period)
    }

    fn is_over(&self, counter: &Counter) -> Option<Over> {
        let quota = self.quota.filter(|quota| counter.used >= quota.bytes)?;
        Some(quota.over)
    }
}

/// Counts by rule, and by host or member.
///
/// Time is since the Unix epoch. A quota is used up once as many bytes are counted as it gives.
#[derive(Debug)]
pub struct QuotaBook {
    zone: TimeZone,
    rules: BTreeMap<String, Rule>,
    /// The latest time at which periods were looked after.
    now: Duration,
    passed: VecDeque<Passed>,
    /// Counters that are gone and still written down.
    gone: Vec<SavedCounter>,
    /// Those who are above a quota are others than when they were asked for last.
    changed: bool,
    /// Counters that were forgotten to make room.
    forgotten: u64,
}

impl QuotaBook {
    /// A book without counts, whose periods are of this zone.
    #[must_use]
    pub fn new(zone: TimeZone) -> Self {
        Self {
            zone,
            rules: BTreeMap::new(),
            now: Duration::ZERO,
            passed: VecDeque::new(),
            gone: Vec::new(),
            changed: true,
            forgotten: 0,
        }
    }

    /// Takes up what an earlier run had counted.
    pub fn load(&mut self, counters: Vec<SavedCounter>) {
        for saved in counters.into_iter().take(MAX_QUOTA_COUNTERS) {
            let counter = Counter {
                since: saved.since,
                used: saved.used,
                passed: false,
                unsaved: false,
            };
            let rule = self.rule(&saved.rule);
            rule.counters.insert(saved.subject, counter);
        }
    }

    fn rule(&mut self, name: &str) -> &mut Rule {
        // Bounds that no time lies in: the next look at the time sets them.
        self.rules.entry(name.to_owned()).or_insert_with(|| Rule {
            quota: None,
            over_class: None,
            bounds: [Duration::MAX, Duration::ZERO],
            counters: HashMap::new(),
            passed: 0,
        })
    }

    /// Counts by the quotas of this policy from now on. What was counted for a rule of the same
    /// name goes on.
    pub fn set_policy(&mut self, now: Duration, policy: &Policy) {
        for rule in self.rules.values_mut() {
            rule.quota = None;
        }
        for with in policy.rules() {
            let Some(quota) = with.quota else { continue };
            let class = match quota.over {
                Over::Class(class) => policy.classes().get(class),
                Over::Block => None,
            };
            let rule = self.rule(&with.name);
            rule.quota = Some(quota);
            rule.over_class = class.map(|class| class.name.clone());
            rule.bounds = [Duration::MAX, Duration::ZERO];
            // Of hosts no member's bytes are known, and the other way round.
            let others = rule
                .counters
                .extract_if(|subject, _| subject.per() != quota.per);
            let others: Vec<SavedCounter> = others
                .map(|(subject, counter)| gone(&with.name, subject, counter.since))
                .collect();
            self.gone.extend(others);
        }
        self.changed = true;
        self.handle_time(now);
        // Whom another quota puts above it was not above it by what it used now.
        for rule in self.rules.values_mut() {
            let bytes = rule.quota.map_or(u64::MAX, |quota| quota.bytes);
            let counters = rule.counters.values_mut();
            counters.for_each(|counter| counter.passed = counter.used >= bytes);
        }
    }

    /// There are rules with quotas.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.rules.values().any(|rule| rule.quota.is_some())
    }

    /// For whom the bytes of a rule are counted; `None`: they are not.
    #[must_use]
    pub fn per(&self, rule: &str) -> Option<Per> {
        Some(self.rules.get(rule)?.quota?.per)
    }

    /// Goes to the periods of this time.
    pub fn handle_time(&mut self, now: Duration) {
        self.now = now;
        for (name, rule) in &mut self.rules {
            let [began, ends] = rule.bounds;
            if (began..ends).contains(&now) {
                continue;
            }
            rule.bounds = rule.period().bounds(now, &self.zone);
            let bounds = rule.bounds;
            rule.counters.values_mut().for_each(|one| one.turn(bounds));
            let over = rule.counters.extract_if(|_, counter| counter.used == 0);
            self.gone
                .extend(over.map(|(subject, counter)| gone(name, subject, counter.since)));
            self.changed = true;
        }
        self.rules
            .retain(|_, rule| rule.quota.is_some() || !rule.counters.is_empty());
    }

    /// Counts bytes of a flow of this rule.
    pub fn charge(&mut self, now: Duration, name: &str, subject: &Subject, bytes: u64) {
        if now != self.now {
            self.handle_time(now);
        }
        self.make_room(name, subject);
        let Some(rule) = self.rules.get_mut(name) else {
            return;
        };
        let (Some(quota), [began, ends]) = (rule.quota, rule.bounds) else {
            return;
        };
        if bytes == 0 {
            return;
        }
        let counters = &mut rule.counters;
        let counter = match counters.get_mut(subject) {
            Some(counter) => counter,
            None => (counters.entry(subject.clone())).or_insert(Counter::new(began)),
        };
        counter.add(bytes);
        let is_over = counter.used >= quota.bytes;
        // It is passed once in a period.
        if !is_over || std::mem::replace(&mut counter.passed, true) {
            return;
        }
        let passed = Passed {
            rule: name.to_owned(),
            subject: subject.clone(),
            quota,
            used: counter.used,
            resets: ends,
        };
        rule.passed = rule.passed.saturating_add(1);
        self.changed = true;
        if self.passed.len() < MAX_READY {
            self.passed.push_back(passed);
        }
    }

    /// Makes room for another counter where there is none: the sixteenth of all that have used
    /// least are forgotten, which count from nothing again.
    fn make_room(&mut self, rule: &str, subject: &Subject) {
        let known = |rule: &Rule| rule.counters.contains_key(subject);
        if self.rules.get(rule).is_none_or(known) {
            return;
        }
        let all: usize = self.rules.values().map(|rule| rule.counters.len()).sum();
        if all < MAX_QUOTA_COUNTERS {
            return;
        }
        let counters = self.rules.values().flat_map(|rule| rule.counters.values());
        let mut used: Vec<u64> = counters.map(|counter| counter.used).collect();
        let (_, least, _) = used.select_nth_unstable(MAX_QUOTA_COUNTERS / 16);
        let least = *least;
        for (name, rule) in &mut self.rules {
            let few = rule.counters.extract_if(|_, counter| counter.used <= least);
            let few: Vec<SavedCounter> = few
                .map(|(subject, counter)| gone(name, subject, counter.since))
                .collect();
            let count = u64::try_from(few.len()).unwrap_or(u64::MAX);
            self.forgotten = self.forgotten.saturating_add(count);
            self.gone.extend(few);
        }
        self.changed = true;
    }

    /// What happens to flows of this rule, if the quota is used up.
    #[must_use]
    pub fn over(&self, rule: &str, subject: &Subject) -> Option<Over> {
        let rule = self.rules.get(rule)?;
        rule.is_over(rule.counters.get(subject)?)
    }

    /// The next quota that was used up.
    pub fn poll_passed(&mut self) -> Option<Passed> {
        self.passed.pop_front()
    }

    /// Those who are above a quota, if they are others than at the last call.
    pub fn poll_above(&mut self) -> Option<AboveNow> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let mut above = AboveNow::default();
        for (name, rule) in &self.rules {
            let Some(quota) = rule.quota else { continue };
            let over = rule
                .counters
                .iter()
                .filter(|(_, one)| rule.is_over(one).is_some());
            let subjects: HashSet<Subject> = over.map(|(subject, _)| subject.clone()).collect();
            if !subjects.is_empty() {
                let over = quota.over;
                above.add(name.clone(), AboveRule { over, subjects });
            }
        }
        Some(above)
    }

    /// All that is counted, the fullest first.
    #[must_use]
    pub fn rows(&self) -> Vec<QuotaRow> {
        let mut rows = Vec::new();
        for (name, rule) in &self.rules {
            let Some(quota) = rule.quota else { continue };
            rows.extend(rule.counters.iter().map(|(subject, counter)| {
                // After a clock that stepped back the next period is there already.
                let [_, ends] = if counter.since > self.now {
                    quota.period.bounds(counter.since, &self.zone)
                } else {
                    rule.bounds
                };
                QuotaRow {
                    rule: name.clone(),
                    per: quota.per,
                    of: subject.to_string(),
                    used: counter.used,
                    quota: quota.bytes,
                    period: quota.period,
                    over: counter.used >= quota.bytes,
                    over_class: rule.over_class.clone(),
                    resets_s: ends.as_secs(),
                }
            }));
        }
        let full = |row: &QuotaRow| {
            // In millionths: a quota is a positive number of bytes.
            let used = u128::from(row.used).saturating_mul(1_000_000);
            used.checked_div(row.quota.into()).unwrap_or(u128::MAX)
        };
        rows.sort_by(|one, other| {
            let names = |row: &QuotaRow| (row.rule.clone(), row.of.clone());
            (full(other).cmp(&full(one))).then_with(|| names(one).cmp(&names(other)))
        });
        rows
    }

    /// How many there are, by rule.
    #[must_use]
    pub fn totals(&self) -> Vec<QuotaTotals> {
        let with = self.rules.iter().filter(|(_, rule)| rule.quota.is_some());
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        with.map(|(name, rule)| {
            let counters = rule.counters.values();
            let over = counters.filter(|counter| rule.is_over(counter).is_some());
            QuotaTotals {
                rule: name.clone(),
                counted: number(rule.counters.len()),
                over: number(over.count()),
                passed: rule.passed,
            }
        })
        .collect()
    }

    /// Counters that were forgotten to make room.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What has changed since the last call, to be written down.
    pub fn take_unsaved(&mut self) -> Vec<SavedCounter> {
        let mut unsaved = std::mem::take(&mut self.gone);
        for (name, rule) in &mut self.rules {
            let counters = rule.counters.iter_mut();
            let changed = counters.filter(|(_, counter)| counter.unsaved);
            unsaved.extend(changed.map(|(subject, counter)| {
                counter.unsaved = false;
                SavedCounter {
                    rule: name.clone(),
                    subject: subject.clone(),
                    since: counter.since,
                    used: counter.used,
                }
            }));
        }
        unsaved
    }
}

fn gone(rule: &str, subject: Subject, since: Duration) -> SavedCounter {
    SavedCounter {
        rule: rule.to_owned(),
        subject,
        since,
        used: 0,
    }
}

#[cfg(test)]
mod tests;
