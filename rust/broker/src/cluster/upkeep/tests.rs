use super::*;

const EVERY_NS: u64 = 300;

#[test]
fn leaders_are_balanced_once_in_each_interval() {
    let mut rounds = Rounds::default();
    rounds.lead(1, EVERY_NS, 7);
    assert!(!rounds.begins_to_balance(306));
    assert!(rounds.begins_to_balance(307));
    assert!(!rounds.begins_to_balance(999), "the first pass is under way");
    rounds.balanced(1, 999 + EVERY_NS);
    rounds.lead(1, EVERY_NS, 1_000);
    assert!(!rounds.begins_to_balance(1_298));
    assert!(rounds.begins_to_balance(1_299));
    rounds.balanced(1, 1_300);
    assert!(rounds.begins_to_balance(1_300), "the rest of a large pass does not wait");
}

#[test]
fn the_leader_of_another_term_begins_with_a_whole_interval() {
    let mut rounds = Rounds::default();
    rounds.lead(1, EVERY_NS, 0);
    assert!(rounds.begins_to_balance(300));
    rounds.lead(2, EVERY_NS, 400);
    rounds.balanced(1, 400);
    assert!(!rounds.begins_to_balance(699), "the answer was to another term");
    assert!(rounds.begins_to_balance(700));
    rounds.follow();
    rounds.lead(2, EVERY_NS, 800);
    assert!(!rounds.begins_to_balance(1_099));
}

#[test]
fn the_configuration_says_when_leaders_are_balanced() {
    let mut config = BrokerConfig::default();
    assert_eq!(Upkeep::of(&config).balance_every_ns, Some(300_000_000_000));
    config.auto_leader_rebalance_enable = false;
    assert_eq!(Upkeep::of(&config).balance_every_ns, None);
    assert_eq!(Upkeep::of(&config).offsets_topic.replicas, 3);
}
