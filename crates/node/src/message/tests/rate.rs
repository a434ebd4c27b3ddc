//! Many messages: each is there once, and each round writes once.

use super::*;

/// Twenty thousand messages, in both databases, in order. The rate of the two engines on one thread
/// is printed.
#[test]
fn many_messages_are_exact() {
    let mut pair = Pair::new();
    let begun = Instant::now();
    let (count, group) = (20_000u64, 500);
    let mut rounds = 0;
    for first in (0..count).step_by(group) {
        let mut inputs = Vec::new();
        let mut answers = Vec::new();
        for id in first..(first + 500).min(count) {
            let (input, answer) = send(
                &pair.b.certificate,
                id,
                &[&id.to_be_bytes()[..], &[7; 92]].concat(),
            );
            inputs.push(input);
            answers.push(answer);
        }
        let left = pair.a.round(pair.now, &pair.kin, inputs);
        for mut answer in answers {
            answer.try_recv().unwrap().unwrap();
        }
        pair.settle(left);
        let last = pair.b.list(true).last().unwrap().message.id;
        if first % 5_000 == 4_500 {
            pair.mark_read(last);
        }
        rounds += 1;
    }
    let took = begun.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = count as f64 / took;
    println!(
        "{count} messages of 100 bytes in {rounds} groups: {rate:.0} a second, both ends on one thread"
    );
    assert_eq!(pair.a.engine().pending(), 0);
    let mut numbers: Vec<u64> = pair
        .b
        .list(false)
        .iter()
        .map(|stored| stored.number)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers.last(), Some(&count));
    let stored = pair.b.engine().store().left().unwrap();
    assert_eq!(stored[0].reached[0].upto, count);
}
