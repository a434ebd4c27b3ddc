//! Requests about tallies: what routers have counted under a name.

use futures_util::StreamExt as _;
use ringway_client::tallies::{CountLeft, CountsToLeave, NamedCount, RouterCount, TallyFound};
use ringway_overlay::Count;
use ringway_overlay::limits::MAX_COUNT_LIFETIME;

use super::message::Reply;
use super::server::{Answers, Failure, Services, checked_name};
use crate::clock::unix_seconds;
use crate::limits::{COUNTS_AT_ONCE, COUNTS_IN_REQUEST};

impl Services {
    /// Leaves counts, some at a time; each is answered as it ends.
    pub(super) async fn leave_counts(
        &self,
        counts: CountsToLeave,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let CountsToLeave { counts, expires } = counts;
        if counts.len() > COUNTS_IN_REQUEST {
            return Err(Failure::Usage(format!(
                "{} counts are too many for one request: {COUNTS_IN_REQUEST} may be left at once",
                counts.len()
            )));
        }
        counts
            .iter()
            .try_for_each(|count| checked_name(&count.name))?;
        let now = unix_seconds();
        let latest = now.saturating_add(MAX_COUNT_LIFETIME.as_secs());
        if !(now..=latest).contains(&expires) {
            return Err(Failure::Usage(format!(
                "a count ends between now and {} hours from now",
                MAX_COUNT_LIFETIME.as_secs() / 3600
            )));
        }
        self.router_only()?;
        // One that fails is told as kept by none, so that the others are left all the same.
        let left = counts
            .into_iter()
            .map(|NamedCount { name, count }| async move {
                let point = Count::point(name.as_bytes());
                let left = self.member.count(point, count, expires).await;
                let left =
                    left.inspect_err(|error| tracing::debug!(%error, "a count was not left"));
                let left = left.unwrap_or_default();
                CountLeft {
                    name,
                    copies: left.copies,
                    group: left.group,
                }
            });
        let mut left = futures_util::stream::iter(left).buffer_unordered(COUNTS_AT_ONCE);
        while let Some(left) = left.next().await {
            answers.send(&Reply::CountLeft(left)).await?;
        }
        Ok(())
    }

    pub(super) async fn tally(&self, name: String, answers: &mut Answers) -> Result<(), Failure> {
        checked_name(&name)?;
        self.router_only()?;
        let found = self.member.tally(Count::point(name.as_bytes())).await;
        let found =
            found.map_err(|error| Failure::Failed(format!("`{name}` was not read: {error}")))?;
        // A program adds what it has counted since, and trusts it: it has to know which it is.
        let own = self.certificate.ring_key();
        let counts = found.counts.into_iter().map(|(key, count)| RouterCount {
            ring_key: key.to_string(),
            own: Some(key) == own,
            count,
        });
        let found = TallyFound {
            name,
            counts: counts.collect(),
            answers: found.answers,
            group: found.group,
            verified: found.verified,
        };
        Ok(answers.send(&Reply::Tally(found)).await?)
    }

    fn router_only(&self) -> Result<(), Failure> {
        match self.certificate.ring_key() {
            Some(_) => Ok(()),
            None => Err(Failure::Usage(
                "only routers count, and this member is a leaf: ask the daemon of a router"
                    .to_owned(),
            )),
        }
    }
}
