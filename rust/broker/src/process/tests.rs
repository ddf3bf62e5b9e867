#![allow(clippy::unwrap_used)]
use super::flags::{Parsed, parse};
use super::*;
use crate::config::load;

fn failure_of(words: &[&str]) -> Failure {
    match parse(words) {
        Err(failure) => failure,
        Ok(Parsed::Run(order)) => Failure::from(load(&order.sources).unwrap_err()),
        Ok(other) => panic!("{other:?}"),
    }
}

#[test]
fn flags_become_keys() {
    let words = [
        "--listen=127.0.0.1:0",
        "--advertise",
        "broker.example:19092",
        "--data-dir",
        "d",
        "--set",
        "num.partitions=3",
        "--set=log.retention.hours=1",
        "--profile",
        "dev",
        "--topic=a:3",
        "--stop-with-stdin",
        "--topic",
        "b",
    ];
    let Ok(Parsed::Run(order)) = parse(&words) else { panic!() };
    assert_eq!(order.topics, [("a".to_owned(), Some(3)), ("b".to_owned(), None)]);
    assert!(order.stops_with_stdin);
    let mut sources = order.sources;
    sources.environment.clear();
    let config = load(&sources).unwrap();
    assert_eq!((config.listeners[0].host.as_str(), config.listeners[0].port), ("127.0.0.1", 0));
    assert_eq!(config.advertised_listeners[0].host, "broker.example");
    assert_eq!(config.data_dirs, [std::path::Path::new("d")]);
    assert_eq!(config.num_partitions, 3);
    assert_eq!(config.admin_port, Some(9644));
    assert_eq!(config.group_initial_rebalance_delay_ms, 0);
}

#[test]
fn words_that_are_wrong_exit_with_2_and_a_hint() {
    for (words, what, hint) in [
        (vec!["--lisen", "x"], "unknown flag --lisen", "did you mean --listen?"),
        (vec!["--listen"], "--listen wants a value", "`kafkalite serve --help` tells the flags."),
        (
            vec!["--listen", "9092"],
            "--listen wants HOST:PORT, not 9092",
            "`kafkalite serve --help` tells the flags.",
        ),
        (
            vec!["--set", "log.segmnet.bytes=1"],
            "unknown key log.segmnet.bytes (--set)",
            "did you mean log.segment.bytes?",
        ),
        (
            vec!["--admin-port", "99999"],
            "Invalid value 99999 for configuration kafkalite.admin.port: \
             Value must be no more than 65535 (--admin-port)",
            "see `kafkalite config explain kafkalite.admin.port`.",
        ),
        (
            vec!["--topic", "a:none"],
            "--topic wants NAME or NAME:PARTITIONS, not a:none",
            "`kafkalite serve --help` tells the flags.",
        ),
        (
            vec!["--links-from-stdin", "--stop-with-stdin"],
            "--links-from-stdin and --stop-with-stdin exclude each other",
            "`kafkalite serve --help` tells the flags.",
        ),
        (vec!["--profile", "prod"], "unknown profile prod", "the only profile is dev."),
    ] {
        let failure = failure_of(&words);
        assert_eq!((failure.what.as_str(), failure.exit_code), (what, 2));
        assert_eq!(failure.hint, hint);
    }
}

#[test]
fn several_errors_of_a_configuration_are_listed_at_once() {
    let words = ["--set=num.partitons=3", "--set=num.partitions=x", "--set=nothing.like.it=1"];
    let failure = failure_of(&words);
    assert_eq!(failure.exit_code, 2);
    assert_eq!(
        failure.to_string(),
        "error: 3 errors in the configuration\n  \
         unknown key num.partitons (--set): did you mean num.partitions?\n  \
         Invalid value x for configuration num.partitions: Not a number of type INT (--set): \
         see `kafkalite config explain num.partitions`.\n  \
         unknown key nothing.like.it (--set): `kafkalite config list` lists the keys that exist.\n\
         hint: `kafkalite config list` lists the keys with their values.\n"
    );
}

#[test]
fn the_origin_of_a_value_is_the_strongest_place_that_said_it() {
    let words =
        ["--profile=dev", "--set=offsets.topic.num.partitions=7", "--set=zookeeper.connect=z"];
    let told = origins(&words.map(str::to_owned)).unwrap();
    let of = |key: &str| told.iter().find(|origin| origin.key == key).unwrap();
    for (key, value, origin) in [
        ("offsets.topic.num.partitions", Some("7"), "--set"),
        ("group.initial.rebalance.delay.ms", Some("0"), "--profile dev"),
        ("num.partitions", Some("1"), "default"),
        ("zookeeper.connect", None, "--set"),
    ] {
        assert_eq!((of(key).value.as_deref(), of(key).origin.as_str()), (value, origin), "{key}");
        assert_eq!(of(key).known, value.is_some());
    }
    assert_eq!(origins(&["--set=a=b".to_owned()]).unwrap_err().exit_code, 2);
}

#[test]
fn the_log_filter_is_info_unless_it_can_be_read() {
    use tracing::Level;
    for (wanted, level, passes) in [
        ("", Level::INFO, true),
        ("", Level::DEBUG, false),
        ("warn", Level::INFO, false),
        ("info,kafkalite_broker=debug", Level::DEBUG, true),
        ("kafkalite_broker=loud", Level::INFO, true),
    ] {
        let filter = super::logging::filter(wanted);
        assert_eq!(filter.would_enable("kafkalite_broker::network", &level), passes, "{wanted}");
    }
    for (wanted, passes) in [("", false), ("info", false), ("warn,openraft=info", true)] {
        let filter = super::logging::filter(wanted);
        assert_eq!(filter.would_enable("openraft::core", &Level::INFO), passes, "{wanted}");
    }
}

/// The stop of a broker logged "raft stopped" as an error, once for each call that it ended.
#[test]
fn failures_of_calls_to_the_quorum_are_not_logged_beside_what_the_caller_reports() {
    use super::logging::{filter, most_for};
    use tracing::Level;
    let calls = "openraft::raft::raft_inner";
    for (wanted, target, passes) in [
        ("", calls, false),
        ("debug", calls, false),
        ("openraft=debug", calls, true),
        ("", "openraft::core::raft_core", true),
    ] {
        let would = filter(wanted).would_enable(target, &Level::ERROR);
        assert_eq!(would, passes, "{wanted} {target}");
    }
    let passes = [calls, "openraft::core::raft_core", "kafkalite_broker"]
        .map(|target| Level::ERROR <= most_for(target));
    assert_eq!(passes, [false, true, true]);
}

#[test]
fn a_failure_reads_as_what_why_and_hint() {
    let failure = Failure::refused("a".to_owned(), "b".to_owned(), "c");
    assert_eq!(failure.to_string(), "error: a\n  b\nhint: c\n");
}

/// Clients were sent to an address without a host, or to that of every interface.
#[test]
fn an_address_to_advertise_is_one_that_clients_can_connect_to() {
    for address in [":9092", "0.0.0.0:9092", "[::]:9092"] {
        let failure = failure_of(&["--advertise", address]);
        assert_eq!(failure.exit_code, 2, "{address}");
        assert!(failure.to_string().contains(address), "{failure}");
    }
    assert!(parse(&["--listen", ":9092"]).is_ok());
}
