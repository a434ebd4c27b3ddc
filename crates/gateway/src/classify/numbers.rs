//! Numbers that the messages of a conversation share: under which a side has asked, and what it
//! counts up.

use super::message::Memory;
use crate::flow::Direction;

/// Questions, and counters, that are remembered of one flow.
const MOST: usize = 4;

/// A question: of which protocol, from whom, under which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    protocol: &'static str,
    from: Direction,
    number: u64,
}

/// A counter of one sender: what it belongs to (a source, a session), and how often it went on.
#[derive(Clone, Copy, Debug)]
struct Counter {
    protocol: &'static str,
    from: Direction,
    key: u64,
    last: u64,
    steps: u8,
}

/// What is remembered of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    asked: Vec<Question>,
    counters: Vec<Counter>,
}

impl Memory {
    pub(super) fn numbers(&mut self) -> &mut Numbers {
        self.numbers.get_or_insert_default()
    }
}

impl Numbers {
    /// A side asks under this number, maybe not for the first time.
    pub(super) fn ask(&mut self, protocol: &'static str, from: Direction, number: u64) {
        let question = Question {
            protocol,
            from,
            number,
        };
        if self.asked.contains(&question) {
            return;
        }
        if self.asked.len() >= MOST {
            self.asked.remove(0);
        }
        self.asked.push(question);
    }

    /// Numbers under which the other side has asked.
    pub(super) fn asked(&self, protocol: &str, from: Direction) -> impl Iterator<Item = u64> {
        let others =
            move |question: &&Question| question.protocol == protocol && question.from != from;
        self.asked
            .iter()
            .filter(others)
            .map(|question| question.number)
    }

    /// The other side has asked under this number.
    pub(super) fn answers(&self, protocol: &str, from: Direction, number: u64) -> bool {
        self.asked(protocol, from).any(|asked| asked == number)
    }

    /// How often this sender's counter has gone on by 1 to `most`; a copy changes nothing, and
    /// anything else begins again.
    pub(super) fn count(
        &mut self,
        protocol: &'static str,
        from: Direction,
        key: u64,
        number: u64,
        most: u64,
    ) -> u8 {
        let known = self.counters.iter_mut().find(|counter| {
            counter.protocol == protocol && counter.from == from && counter.key == key
        });
        if let Some(counter) = known {
            match number.wrapping_sub(counter.last) {
                0 => {}
                step if step <= most => counter.steps = counter.steps.saturating_add(1),
                _ => counter.steps = 0,
            }
            counter.last = number;
            return counter.steps;
        }
        // Of many keys each has been seen once: they are none.
        if self.counters.len() >= MOST {
            self.counters.remove(0);
        }
        self.counters.push(Counter {
            protocol,
            from,
            key,
            last: number,
            steps: 0,
        });
        0
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;
    use crate::flow::Direction::{FromClient, FromServer};

    #[test]
    fn questions_are_answered_by_the_other_side() {
        let mut numbers = Numbers::default();
        numbers.ask("a", FromClient, 7);
        assert!(numbers.answers("a", FromServer, 7));
        assert!(!numbers.answers("a", FromClient, 7) && !numbers.answers("b", FromServer, 7));
        for number in 8..12 {
            numbers.ask("a", FromClient, number);
        }
        assert!(!numbers.answers("a", FromServer, 7), "forgotten");
    }

    #[test]
    fn counters_go_on_in_small_steps() {
        let mut numbers = Numbers::default();
        let steps = [1, 2, 2, 4, 100, 101].map(|at| numbers.count("a", FromClient, 3, at, 4));
        assert_eq!(steps, [0, 1, 1, 2, 0, 1]);
        assert_eq!(numbers.count("a", FromServer, 3, 102, 4), 0);
    }
}
