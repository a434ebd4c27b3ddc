//! What another policy would do with flows that have been: decided again from what was written
//! down.

use jiff::tz::TimeZone;

use super::account::{Asked, FlowAccount, Named};
use crate::policy::{Action, Decision, FlowFacts, Found, Moment, Policy};

/// What happens to a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Fate {
    /// What is done.
    #[serde(serialize_with = "name")]
    pub action: &'static str,
    /// By which rule.
    pub rule: String,
    /// In which class of bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

fn name<S: serde::Serializer>(action: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(action)
}

/// Why history does not tell what a policy would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Untold {
    /// The application was not looked for: it passed without being asked about, or was decided
    /// before that.
    Application,
    /// Other flows of its hosts gave it its name, and these may have been blocked.
    OtherFlows,
    /// Only one side has spoken: packets are dropped one by one, for as long as that is so.
    Unanswered,
    /// It depends on files or messages that the flow carried.
    Contents,
    /// The rule that decides has a quota, and what was used of it by then is not known.
    Quota,
    /// Neither TCP nor UDP: no rule decides on it.
    Protocol,
}

/// A flow under another policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The same is done, maybe by another rule.
    Same,
    /// Something else.
    Otherwise(Fate),
    /// It cannot be told.
    Untold(Untold),
}

/// What this policy would have done with a flow. `zone` is that of its times of day.
#[must_use]
pub fn compare(policy: &Policy, zone: &TimeZone, flow: &FlowAccount) -> Compared {
    let Some(l4) = flow.ends.l4() else {
        return Compared::Untold(Untold::Protocol);
    };
    let found = flow.confidence.map(|confidence| Found {
        application: &flow.app,
        confidence,
        host: flow.details.name(),
        member: flow.details.member.as_deref(),
        infohash: flow.details.infohash,
    });
    let unnamed = FlowFacts {
        l4,
        client: flow.ends.client,
        server: flow.ends.server,
        found: None,
        at: Moment::of(flow.began, zone),
    };
    // What ended before anything was decided would end so again: its packets are all there was.
    let undecided = flow.asked == Asked::Yes && flow.action.is_none();
    let named = match flow.named {
        Named::No if undecided => Named::Itself,
        named => named,
    };
    let plan = match (policy.decide(&unnamed), named) {
        // True of every packet, whatever it carries.
        (Decision::Settled(plan), _) => plan,
        (Decision::NotYet, Named::No) => return Compared::Untold(Untold::Application),
        (Decision::NotYet, Named::Others) => return Compared::Untold(Untold::OtherFlows),
        (Decision::NotYet, Named::Itself) => match policy.decide(&FlowFacts { found, ..unnamed }) {
            Decision::Settled(plan) if plan.ruling.action == Action::Block && !flow.answered => {
                return Compared::Untold(Untold::Unanswered);
            }
            Decision::Settled(plan) => plan,
            Decision::NotYet => return Compared::Untold(Untold::Application),
        },
    };
    // A rule on contents before the one that decides may have another say, but for a block.
    if !plan.content.is_empty() && plan.ruling.action != Action::Block {
        return Compared::Untold(Untold::Contents);
    }
    let rule = policy.name_of(&plan.ruling);
    if policy.quota_of(rule).is_some() {
        return Compared::Untold(Untold::Quota);
    }
    let class = plan.ruling.class;
    let class = class.and_then(|class| policy.classes().get(class));
    let fate = Fate {
        action: plan.ruling.action.name(),
        rule: rule.to_owned(),
        class: class.map(|class| class.name.clone()),
    };
    // What was not asked about went on.
    let was = flow.action.unwrap_or(Action::Allow).name();
    if was == fate.action && flow.class == fate.class {
        return Compared::Same;
    }
    Compared::Otherwise(fate)
}
