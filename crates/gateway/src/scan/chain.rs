//! Several scanners one after the other.

use super::Scanner;
use crate::verdict::{ScanJob, Scanned};

/// Asks each of its scanners about each window, until one finds something or cannot look. Only what
/// all of them found clean is clean.
pub struct Chain(Vec<Box<dyn Scanner>>);

impl Chain {
    /// These scanners, in this order.
    #[must_use]
    pub fn new(scanners: Vec<Box<dyn Scanner>>) -> Self {
        Self(scanners)
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Chain").field(&self.0.len()).finish()
    }
}

impl Scanner for Chain {
    fn scan(&mut self, job: &ScanJob) -> Scanned {
        for scanner in &mut self.0 {
            match scanner.scan(job) {
                Scanned::Clean => {}
                other => return other,
            }
        }
        Scanned::Clean
    }
}

#[cfg(test)]
mod tests {
    use super::Chain;
    use crate::flow::Direction;
    use crate::scan::Scanner;
    use crate::verdict::{FlowId, ScanJob, Scanned};

    struct Says(Scanned);

    impl Scanner for Says {
        fn scan(&mut self, _job: &ScanJob) -> Scanned {
            self.0.clone()
        }
    }

    #[test]
    fn clean_is_what_all_of_them_found_clean() {
        let found = Scanned::Found("x".to_owned());
        let failed = Scanned::Failed("y".to_owned());
        let clean = Scanned::Clean;
        let job = ScanJob {
            flow: FlowId::default(),
            direction: Direction::FromServer,
            number: 1,
            bytes: Vec::new(),
            repeated: 0,
            at: 0,
            first: true,
            last: true,
            name: None,
        };
        for (first, second, expected) in [
            (&clean, &clean, &clean),
            (&clean, &found, &found),
            (&clean, &failed, &failed),
            (&found, &failed, &found),
            (&failed, &clean, &failed),
        ] {
            let mut chain = Chain::new(vec![
                Box::new(Says(first.clone())),
                Box::new(Says(second.clone())),
            ]);
            assert_eq!(chain.scan(&job), *expected);
        }
    }
}
