//! Which questions may create a topic.

use super::*;
use crate::testing::{AutoCreated, auto_creating};
use parking_lot::Mutex;
use std::collections::BTreeSet;

fn creating(topics: &Arc<Mutex<AutoCreated>>) -> FakeBroker {
    let topics = Arc::clone(topics);
    FakeBroker::start(move |asked| match asked.is(ApiKey::Metadata) {
        true => auto_creating(asked, &topics),
        false => Answer::Usual,
    })
}

fn only(name: &str) -> Wanted {
    Wanted::Topics(vec![name.to_owned()])
}

/// Every refresh of a known topic asked for it by name and allowed its creation. So a deleted topic
/// came back, empty, because a client refreshed its metadata.
#[test]
fn a_refresh_does_not_bring_a_deleted_topic_back_until_the_program_names_it() {
    for learned in [only("t"), Wanted::Known, Wanted::All] {
        let topics = Arc::new(Mutex::new(AutoCreated::default()));
        let broker = creating(&topics);
        let seen = Arc::clone(&topics);
        run(tries_again_after(&broker, 1), |cluster| async move {
            cluster.topic("t", soon()).await.expect("it is created");
            cluster.topic("other", soon()).await.expect("it is created");
            assert_eq!(seen.lock().created, 2);
            seen.lock().there.remove("t");
            let image = cluster.refresh(learned.clone()).await.expect("an answer");
            assert!(image.topic("t").is_none(), "{learned:?}");
            // A subscription, say, asks for it as long as it is not there.
            for again in [only("t"), Wanted::Known, only("t")] {
                cluster.refresh(again).await.expect("an answer");
            }
            assert_eq!(seen.lock().created, 2, "{learned:?}");
            cluster.named(["t"]);
            cluster.topic("t", soon()).await.expect("it is created again");
            assert_eq!(seen.lock().created, 3);
        });
    }
}

#[test]
fn a_topic_that_is_new_is_created_though_known_ones_are_asked_for_with_it() {
    let topics = Arc::new(Mutex::new(AutoCreated::default()));
    let broker = creating(&topics);
    let seen = Arc::clone(&topics);
    run(tries_again_after(&broker, 1), |cluster| async move {
        cluster.topic("known", soon()).await.expect("it is created");
        seen.lock().there.remove("known");
        cluster.request_refresh();
        let image = cluster.refresh(only("new")).await.expect("an answer");
        assert!(image.topic("known").is_none() && image.topic("new").is_some());
        assert_eq!(seen.lock().there, BTreeSet::from(["new".to_owned()]));
    });
}

#[test]
fn a_cluster_that_may_not_create_topics_never_does() {
    let topics = Arc::new(Mutex::new(AutoCreated::default()));
    let broker = creating(&topics);
    let mut config = tries_again_after(&broker, 1);
    config.allow_auto_create_topics = false;
    run(config, |cluster| async move {
        cluster.named(["t"]);
        let image = cluster.refresh(only("t")).await.expect("an answer");
        assert!(image.is_missing("t"));
    });
    assert_eq!(topics.lock().created, 0);
}
