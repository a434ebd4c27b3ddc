//! Rules that can never decide anything.

use super::error::PolicyError;
use super::rule::Rule;

/// Finds rules that an earlier one leaves nothing to.
pub(super) fn unreachable(rules: &[Rule]) -> Vec<PolicyError> {
    rules
        .iter()
        .enumerate()
        .filter_map(|(index, rule)| {
            let earlier = rules.get(..index).unwrap_or_default();
            let cover = earlier
                .iter()
                .find(|earlier| earlier.matcher.covers(&rule.matcher))?;
            Some(PolicyError::new(
                rule.line,
                format!(
                    "rule `{}` is never reached: all it matches is decided by `{}` in line {}; \
                     put it before that one, or take it out",
                    rule.name, cover.name, cover.line
                ),
            ))
        })
        .collect()
}
