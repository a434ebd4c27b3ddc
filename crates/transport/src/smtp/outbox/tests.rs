//! Batches, budgets and retries, at made-up times.

use super::*;
use proptest::prelude::*;

fn to(name: &str) -> MailAddress {
    MailAddress::new(&format!("{name}@example.org"), "X-Ringway", "k3").unwrap()
}

fn outbox(hourly: usize, daily: usize) -> Outbox {
    let budget = MailBudget { hourly, daily };
    Outbox::new(&SmtpOptions {
        budget,
        mailbox_budget: MailBudget {
            hourly: 1000,
            daily: 1000,
        },
        ..SmtpOptions::default()
    })
}

#[test]
fn messages_to_one_mailbox_share_a_mail() {
    let (mut outbox, start) = (outbox(100, 100), Instant::now());
    for n in 0..5 {
        outbox.push(start, &to("a"), &[n]).unwrap();
    }
    outbox.push(start, &to("b"), b"other").unwrap();
    assert!(outbox.poll(start).is_none());
    let due = outbox.poll_timeout().unwrap();
    assert_eq!(due - start, MAIL_GATHER_TIME);
    let first = outbox.poll(due).unwrap();
    assert_eq!((first.to.clone(), first.messages.len()), (to("a"), 5));
    let second = outbox.poll(due).unwrap();
    assert_eq!((second.to.clone(), second.messages.len()), (to("b"), 1));
    assert!(outbox.poll(due).is_none());
    assert_eq!(outbox.poll_timeout(), None);
    outbox.sent(first);
    outbox.sent(second);
    assert_eq!(outbox.bytes, 0);
}

#[test]
fn first_leaves_soon_and_the_rest_is_collected() {
    let (mut outbox, start) = (outbox(100, 100), Instant::now());
    let batch_time = SmtpOptions::default().batch_time;
    let mut left = Vec::new();
    // One message every 100 ms, for ten seconds.
    for tenth in 0..100 {
        let now = start + Duration::from_millis(100 * tenth);
        while let Some(mail) = outbox.poll(now) {
            left.push((now - start, mail.messages.len()));
        }
        outbox.push(now, &to("a"), b"x").unwrap();
    }
    let times: Vec<u128> = left.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(times, [100, 2100, 4100, 6100, 8100]);
    assert_eq!(left[0].1, 1);
    assert!(
        left[1..].iter().all(|(_, messages)| *messages == 20),
        "{left:?}"
    );
    // After a pause the next one leaves soon again.
    let later = start + Duration::from_secs(60);
    while outbox.poll(later).is_some() {}
    outbox.push(later, &to("a"), b"x").unwrap();
    assert_eq!(outbox.poll_timeout(), Some(later + MAIL_GATHER_TIME));
    // Another mailbox has its own time.
    outbox.poll(later + MAIL_GATHER_TIME).unwrap();
    outbox.push(later, &to("a"), b"x").unwrap();
    assert_eq!(
        outbox.poll_timeout(),
        Some(later + MAIL_GATHER_TIME + batch_time)
    );
    outbox.push(later, &to("b"), b"x").unwrap();
    assert_eq!(outbox.poll_timeout(), Some(later + MAIL_GATHER_TIME));
}

#[test]
fn without_batch_time_only_a_running_mail_delays() {
    let (mut outbox, start) = (outbox(100, 100), Instant::now());
    outbox.batch_time = Duration::ZERO;
    outbox.push(start, &to("a"), b"first").unwrap();
    // The relay is busy with it, meanwhile:
    let first = outbox.poll(start).unwrap();
    for _ in 0..3 {
        outbox.push(start, &to("a"), b"x").unwrap();
    }
    outbox.sent(first);
    assert_eq!(outbox.poll(start).unwrap().messages.len(), 3);
    assert!(outbox.poll(start).is_none());
}

#[test]
fn busy_mailbox_delays_no_other() {
    let (mut outbox, start) = (outbox(100, 100), Instant::now());
    outbox.batch_time = Duration::ZERO;
    outbox.push(start, &to("b"), b"x").unwrap();
    for step in 1..3 {
        let now = start + Duration::from_millis(step);
        outbox.push(now, &to("a"), b"x").unwrap();
        let expected = if step == 1 { to("b") } else { to("a") };
        assert_eq!(outbox.poll(now).unwrap().to, expected);
    }
}

#[test]
fn a_full_mail_leaves_at_once() {
    let (mut outbox, start) = (outbox(100, 100), Instant::now());
    let message = vec![0; SMTP_MTU];
    for _ in 0..8 {
        outbox.push(start, &to("a"), &message).unwrap();
    }
    let full = outbox.poll(start).unwrap();
    assert_eq!(full.messages.len(), 7);
    assert!(outbox.poll(start).is_none());
    for _ in 0..MAIL_MESSAGES {
        outbox.push(start, &to("b"), b"").unwrap();
    }
    assert!(outbox.poll(start).is_none());
    outbox.push(start, &to("b"), b"").unwrap();
    assert_eq!(outbox.poll(start).unwrap().messages.len(), MAIL_MESSAGES);
}

#[test]
fn what_waits_is_bounded() {
    let (mut outbox, start) = (outbox(10_000, 10_000), Instant::now());
    let message = vec![0; SMTP_MTU];
    let taken = (0..10_000).take_while(|_| outbox.push(start, &to("a"), &message).is_ok());
    assert!(taken.count() * SMTP_MTU <= MAIL_WAITING_BYTES);
    assert_eq!(outbox.push(start, &to("b"), &message), Err(Refused::Full));
    // On its way to the relay it still takes its place.
    let mail = outbox.poll(start).unwrap();
    assert_eq!(outbox.push(start, &to("b"), &message), Err(Refused::Full));
    outbox.sent(mail);
    assert_eq!(outbox.push(start, &to("b"), &message), Ok(()));
    let mut outbox = self::outbox(10_000, 10_000);
    let pushed = (0..1000).filter(|n| outbox.push(start, &to(&format!("m{n}")), b"").is_ok());
    assert_eq!(pushed.count(), MAIL_WAITING_BOXES);
}

#[test]
fn a_spent_budget_refuses_until_time_has_passed() {
    let (mut outbox, start) = (outbox(3, 5), Instant::now());
    let mut now = start;
    let mut mail = |now: Instant| {
        let pushed = outbox.push(now, &to("a"), b"x");
        let late = now + Duration::from_secs(10);
        while let Some(mail) = outbox.poll(late) {
            outbox.sent(mail);
        }
        pushed
    };
    for _ in 0..3 {
        assert_eq!(mail(now), Ok(()));
        now += Duration::from_secs(60);
    }
    assert_eq!(mail(now), Err(Refused::Budget));
    assert_eq!(
        mail(start + HOUR - Duration::from_secs(1)),
        Err(Refused::Budget)
    );
    assert_eq!(mail(start + HOUR), Ok(()));
    assert_eq!(mail(start + HOUR), Err(Refused::Budget));
    assert_eq!(mail(start + 3 * HOUR), Ok(()));
    // Five in a day.
    assert_eq!(mail(start + 10 * HOUR), Err(Refused::Budget));
    assert_eq!(mail(start + DAY), Ok(()));
}

#[test]
fn one_mailbox_cannot_spend_it_all() {
    let start = Instant::now();
    let mut outbox = Outbox::new(&SmtpOptions {
        mailbox_budget: MailBudget {
            hourly: 1,
            daily: 1,
        },
        ..SmtpOptions::default()
    });
    assert_eq!(outbox.push(start, &to("a"), b"x"), Ok(()));
    assert_eq!(outbox.push(start, &to("a"), b"same mail"), Ok(()));
    // Another filter, or other letters, are the same person.
    let same = MailAddress::new("A@example.org", "X-Other", "k4").unwrap();
    assert_eq!(outbox.push(start, &same, b"x"), Err(Refused::Budget));
    assert_eq!(outbox.push(start, &to("b"), b"x"), Ok(()));
}

#[test]
fn mail_is_retried_until_it_is_stale() {
    let (mut outbox, start) = (outbox(10, 10), Instant::now());
    outbox.push(start, &to("a"), b"x").unwrap();
    let (mut now, mut last, mut attempts) = (start, Duration::ZERO, 0);
    loop {
        now = outbox.poll_timeout().unwrap().max(now);
        let mail = outbox.poll(now).unwrap();
        assert_eq!(mail.messages.len(), 1);
        attempts += 1;
        if !outbox.retry(now, mail) {
            break;
        }
        let pause = outbox.poll_timeout().unwrap() - now;
        assert!(pause >= last && pause <= MAIL_RETRY_LONGEST);
        last = pause;
    }
    assert!((5..15).contains(&attempts), "{attempts}");
    assert!(now - start <= MAIL_AGE);
    assert_eq!((outbox.bytes, outbox.poll_timeout()), (0, None));
}

proptest! {
    #[test]
    fn no_message_is_lost_or_doubled(
        sizes in prop::collection::vec((0_usize..5, 0_usize..70_000, 0_u64..3000), 1..80),
    ) {
        let (mut outbox, mut now) = (outbox(10_000, 10_000), Instant::now());
        let (mut pushed, mut left) = (Vec::new(), Vec::new());
        let far = now + HOUR;
        for (number, (whom, size, wait)) in sizes.into_iter().enumerate() {
            let mut message = vec![0; size.max(8)];
            message[..8].copy_from_slice(&number.to_be_bytes());
            message.truncate(SMTP_MTU);
            if outbox.push(now, &to(&format!("m{whom}")), &message).is_ok() {
                pushed.push(number);
            }
            now += Duration::from_millis(wait);
            while let Some(mail) = outbox.poll(now) {
                left.push(mail);
            }
        }
        while let Some(mail) = outbox.poll(far) {
            left.push(mail);
        }
        let limit = SmtpOptions::default().batch_bytes;
        prop_assert!(left.iter().all(|mail| mail.bytes <= limit));
        let mut seen: Vec<usize> = left
            .iter()
            .flat_map(|mail| &mail.messages)
            .map(|message| usize::from_be_bytes(message[..8].try_into().unwrap()))
            .collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, pushed);
        for mail in left {
            outbox.sent(mail);
        }
        prop_assert_eq!(outbox.bytes, 0);
    }
}
