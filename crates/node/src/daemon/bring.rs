//! Notices that the ring's authority was restored from a backup, and brings it what it has
//! forgotten.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::certificate::Certificate;
use crate::directory::{Directory, Gap};
use crate::enrol;
use crate::limits::{STATEMENT_BEHIND, STATEMENT_BRING, STATEMENT_BRING_KNOWN};

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);

/// What is needed for it.
#[derive(Debug)]
pub(super) struct StatementBringer {
    pub(super) certificate: Certificate,
    pub(super) directory: Arc<Directory>,
}

impl StatementBringer {
    /// Works for ever.
    pub(super) async fn run(self) {
        let mut look = tokio::time::interval(LOOK);
        let (mut next_try, mut next_review) = (Instant::now(), Instant::now() + STATEMENT_BRING);
        loop {
            look.tick().await;
            if Instant::now() >= next_review {
                next_review = Instant::now() + STATEMENT_BRING_KNOWN;
                self.bring_certificate().await;
            }
            let Some((lasts, gap)) = self.directory.gap() else {
                // The next gap is brought at once, whatever the last one had to wait for.
                next_try = Instant::now();
                continue;
            };
            if lasts >= STATEMENT_BEHIND && Instant::now() >= next_try {
                let pause = if self.bring(&gap).await {
                    STATEMENT_BRING_KNOWN
                } else {
                    STATEMENT_BRING
                };
                next_try = Instant::now() + pause;
            }
        }
    }

    /// The authority may have been restored, and have recovered, while this member was off.
    async fn bring_certificate(&self) {
        if !self.directory.lacks(&self.own()).await {
            return;
        }
        tracing::warn!("the ring's DNS does not know this member: its authority is reminded");
        let statements = vec![self.directory.statement()];
        let in_dns = None;
        self.bring(&Gap { statements, in_dns }).await;
    }

    fn own(&self) -> Certificate {
        self.directory.own(&self.certificate)
    }

    /// True if the authority knows all of it.
    async fn bring(&self, gap: &Gap) -> bool {
        let mut known_there = true;
        let (locator, own) = (self.directory.locator(), self.own());
        for statement in &gap.statements {
            let brought = enrol::bring(&locator, statement, &own).await;
            let (known, in_dns) = (statement.number(), gap.in_dns);
            known_there &= matches!(brought, Ok(false));
            match brought {
                Ok(true) => tracing::warn!(
                    known,
                    in_dns,
                    "the ring's authority does not know what its owner has stated before: its folder is an old copy, and its owner has to run `ringway ring recover`"
                ),
                Ok(false) => {
                    self.directory.acknowledge(known);
                    tracing::info!(
                        known,
                        in_dns,
                        "the ring's authority knows what this member knows"
                    );
                }
                Err(error) => tracing::warn!(
                    known,
                    in_dns,
                    %error,
                    "the ring's DNS gives an older statement of the owner than this member knows, and the authority was not reached"
                ),
            }
        }
        known_there
    }
}
