use super::*;

const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(100), max: Duration::from_millis(1_000) };

fn topics(names: &[&str]) -> Wanted {
    Wanted::Topics(names.iter().map(|name| (*name).to_owned()).collect())
}

fn ask(next: Next) -> Batch {
    match next {
        Next::Ask(batch) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wishes_that_wait_together_are_asked_together() {
    let mut schedule = Schedule::new(BACKOFF);
    let now = Instant::now();
    assert_eq!(schedule.next(now), Next::Idle);
    let tickets = [schedule.want(topics(&["a"])), schedule.want(topics(&["b", "a"]))];
    assert_eq!(tickets, [1, 1]);
    let batch = ask(schedule.next(now));
    assert_eq!(batch.topics.iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(schedule.want(topics(&["a"])), 2, "what was handed out is closed");
}

#[test]
fn a_million_wishes_in_a_second_are_a_handful_of_requests() {
    for (told, most) in [(Told::Good, 13), (Told::Nothing, 6), (Told::NotYet, 11)] {
        let mut schedule = Schedule::new(BACKOFF);
        let start = Instant::now();
        let mut requests = 0;
        for microsecond in 0..1_000_000 {
            let now = start + Duration::from_micros(microsecond);
            schedule.want(topics(&["a"]));
            if let Next::Ask(batch) = schedule.next(now) {
                requests += 1;
                schedule.answered(&batch, now, |_| told);
            }
        }
        assert!((3..=most).contains(&requests), "{requests} requests, {told:?}");
    }
}

#[test]
fn a_new_wish_does_not_wait_for_the_back_off_of_another() {
    let mut schedule = Schedule::new(BACKOFF);
    let now = Instant::now();
    schedule.want(topics(&["a"]));
    let batch = ask(schedule.next(now));
    schedule.answered(&batch, now, |_| Told::Nothing);
    schedule.want(topics(&["a"]));
    let Next::At(due) = schedule.next(now) else { panic!("it has just been asked for") };
    assert!(due >= now + Duration::from_millis(80));
    schedule.want(topics(&["b"]));
    assert_eq!(ask(schedule.next(now)).topics.len(), 2, "and takes it along");
}

#[test]
fn brokers_alone_are_not_asked_for_without_end() {
    let mut schedule = Schedule::new(BACKOFF);
    let now = Instant::now();
    schedule.want(Wanted::Brokers);
    let batch = ask(schedule.next(now));
    schedule.answered(&batch, now, |_| Told::Good);
    schedule.want(Wanted::Brokers);
    assert!(matches!(schedule.next(now), Next::At(_)));
    schedule.want(Wanted::All);
    assert!(ask(schedule.next(now)).all);
}

/// The first record to a topic that the question makes took `retry.backoff.ms`.
#[test]
fn a_topic_that_is_not_there_yet_is_asked_for_again_within_milliseconds_at_first() {
    let ms = Duration::from_millis;
    let unhurried = Backoff { initial: ms(2), max: ms(4) };
    let doubled = [8, 16, 32, 64, 128, 256, 512, 1_000, 1_000];
    for (backoff, waits) in [(BACKOFF, &doubled[..]), (unhurried, &[2, 4, 4])] {
        let mut schedule = Schedule::new(backoff);
        let mut now = Instant::now();
        schedule.want(topics(&["a"]));
        for wait in waits {
            let batch = ask(schedule.next(now));
            schedule.answered(&batch, now, |_| Told::NotYet);
            schedule.want(topics(&["a"]));
            let Next::At(due) = schedule.next(now) else { panic!("it has just been asked for") };
            let took = due - now;
            assert!(took >= ms(*wait).mul_f64(0.8), "{took:?} for {wait} ms");
            assert!(took <= ms(*wait).mul_f64(1.2), "{took:?} for {wait} ms");
            now = due;
        }
    }
}
