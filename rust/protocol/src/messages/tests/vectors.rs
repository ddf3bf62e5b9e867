//! Messages as lines of hex: those that Apache Kafka's own classes have judged, and new ones for
//! them to judge.
//!
//! A line is `<name> <key> <version> <request|response|record> <hex>`; a record has key -1.

use super::*;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Read and written alike by Kafka 4.3.0; `tests/golden/README.md` says how they are made.
const GOLDEN: &str = include_str!("../../../../../tests/golden/messages.txt");

/// What brokers of ours ask each other.
const PRIVATE: &str = include_str!("../../../../../tests/golden/private_messages.txt");

/// Our own records and messages, as the first release wrote them that had them: the module of each,
/// which no Kafka knows, and its lines.
const OWN: [(&str, &str); 6] = [
    ("metadata_records", include_str!("../../../../../tests/golden/metadata_records.txt")),
    ("quorum_records", include_str!("../../../../../tests/golden/quorum_records.txt")),
    ("quorum", PRIVATE),
    ("propose_records", PRIVATE),
    ("join_cluster", PRIVATE),
    ("describe_figures", PRIVATE),
];

/// The golden lines of our own module of this name.
fn own(module: &str) -> Option<&'static str> {
    OWN.iter().find(|(name, _)| *name == module).map(|(_, golden)| *golden)
}

/// Appends the default value of `T` and `rounds` random ones, in each version.
fn write<T: Versioned + Sample + Default>(
    out: &mut String,
    (name, key, kind): (&str, i16, &'static str),
    rounds: u64,
) {
    for version in T::VERSIONS.min..=T::VERSIONS.max {
        for round in 0..=rounds {
            let seed = u64::from(key as u16) << 32 | (version as u64) << 16 | round << 1;
            let value = match round {
                0 => T::default(),
                _ => T::sample(&mut Generator(seed | u64::from(kind == "response")), version),
            };
            let mut writer = Writer::new();
            value.encode(&mut writer, version);
            let _ = writeln!(out, "{name} {key} {version} {kind} {}", hex(&writer.into_bytes()));
        }
    }
}

/// Reads every golden line of `T` and writes it again; every version must have one.
fn check<T: Versioned>(golden: &str, name: &str, key: i16, kind: &'static str) {
    let mut seen = HashSet::new();
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] != name || words[3] != kind {
            continue;
        }
        assert_eq!(words[1], key.to_string(), "{line}");
        let version = words[2].parse().expect("a version");
        seen.insert(version);
        let mut reader = Reader::new(unhex(words[4]));
        let value = T::decode(&mut reader, version).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(reader.remaining(), 0, "{line}");
        let mut writer = Writer::new();
        value.encode(&mut writer, version);
        assert_eq!(hex(&writer.into_bytes()), words[4], "{name} v{version} {kind}");
    }
    let missing: Vec<_> =
        (T::VERSIONS.min..=T::VERSIONS.max).filter(|version| !seen.contains(version)).collect();
    assert!(missing.is_empty(), "{name} {kind}: no golden bytes for versions {missing:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn unhex(text: &str) -> Bytes {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex"))
        .collect()
}

#[test]
fn what_kafka_wrote_is_read_and_written_alike() {
    macro_rules! api {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            let (name, key) = (ApiKey::$key.name(), ApiKey::$key as i16);
            let golden = own(stringify!($module)).unwrap_or(GOLDEN);
            check::<$module::$request>(golden, name, key, "request");
            check::<$module::$response>(golden, name, key, "response");
        };
    }
    for_each_api!(api);
    macro_rules! record {
        ($module:ident, $name:ident) => {
            let golden = own(stringify!($module)).unwrap_or(GOLDEN);
            check::<$module::$name>(golden, stringify!($name), -1, "record");
        };
    }
    for_each_record!(record);
}

/// A tool more than a test. With `KAFKALITE_VECTORS=<file>` it writes lines for another codec to
/// judge: `KAFKALITE_VECTOR_ROUNDS` random values of each message and version. Our own records go
/// to `KAFKALITE_OWN_VECTORS`: no other codec can judge them.
#[test]
fn vectors_for_other_codecs_are_written_on_request() {
    let paths = ["KAFKALITE_VECTORS", "KAFKALITE_OWN_VECTORS"].map(|name| std::env::var(name).ok());
    let rounds =
        std::env::var("KAFKALITE_VECTOR_ROUNDS").map_or(1, |n| n.parse().expect("a count"));
    let (mut out, mut ours) = (String::new(), String::new());
    macro_rules! api {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            let (name, key) = (ApiKey::$key.name(), ApiKey::$key as i16);
            let out = if own(stringify!($module)).is_some() { &mut ours } else { &mut out };
            write::<$module::$request>(out, (name, key, "request"), rounds);
            write::<$module::$response>(out, (name, key, "response"), rounds);
        };
    }
    for_each_api!(api);
    macro_rules! record {
        ($module:ident, $name:ident) => {
            let out = if own(stringify!($module)).is_some() { &mut ours } else { &mut out };
            write::<$module::$name>(out, (stringify!($name), -1, "record"), rounds);
        };
    }
    for_each_record!(record);
    for (path, lines) in paths.into_iter().zip([out, ours]) {
        if let Some(path) = path {
            std::fs::write(path, lines).expect("a writable path");
        }
    }
}
