//! The level at which a broker compresses, by the size of the log that comes of it.

use super::*;
use client::batch;
use kafkalite_broker::metadata::ConfigResource;

/// A codec with a low and a high level.
const LEVELS: &[(&str, &str, [&str; 2])] = &[
    ("gzip", "compression.gzip.level", ["1", "9"]),
    ("zstd", "compression.zstd.level", ["-50", "19"]),
];

/// Text that is worth a search: words that come again.
fn values() -> Vec<String> {
    let mut state = 1_u64;
    let mut word = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("word-{} ", (state >> 33) % 500)
    };
    (0..100).map(|_| (0..100).map(|_| word()).collect()).collect()
}

impl Fixture {
    /// The bytes of the log that is left of one batch, which its producer did not compress.
    fn stored(&mut self, topic: &str) -> u64 {
        let values = values();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let answer = self.client.produce(topic, batch(&values, None), -1);
        assert_eq!(answer.error_code, 0, "{topic}");
        let log = self.directory.path().join(format!("{topic}-0/00000000000000000000.log"));
        std::fs::metadata(log).unwrap().len()
    }
}

#[test]
fn a_topics_level_is_that_of_its_log() {
    let mut fixture = Fixture::new();
    for (codec, key, levels) in LEVELS {
        let [low, high] = levels.map(|level| {
            let topic = format!("{codec}{level}");
            let configs = [("compression.type", *codec), (*key, level)];
            client::create_topic(&fixture.broker, &topic, 1, &configs);
            fixture.stored(&topic)
        });
        assert!(low > high + high / 50, "{codec}: {low} {high}");
    }
}

#[test]
fn a_topic_inherits_the_level_that_was_altered_for_all_brokers() {
    let mut fixture = Fixture::new();
    for (codec, key, levels) in LEVELS {
        client::create_topic(&fixture.broker, codec, 1, &[("compression.type", codec)]);
        let mut before = 0;
        let [low, high] = levels.map(|level| {
            client::commit_configs(&fixture.broker, ConfigResource::cluster(), &[(*key, level)]);
            let after = fixture.stored(codec);
            let added = after - before;
            before = after;
            added
        });
        assert!(low > high + high / 50, "{codec}: {low} {high}");
    }
}

#[test]
fn a_topic_inherits_the_level_that_a_broker_was_started_with() {
    for (codec, key, levels) in LEVELS {
        let [low, high] = levels.map(|level| {
            let mut fixture = Fixture::with(&[("compression.type", codec), (key, level)]);
            client::create_topic(&fixture.broker, "t", 1, &[]);
            fixture.stored("t")
        });
        assert!(low > high + high / 50, "{codec}: {low} {high}");
    }
}
