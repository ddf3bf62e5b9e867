//! Random events: whatever comes in whatever order, the group keeps its promises.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Join { who: usize, instance: Option<u8>, version: i16, protocols: u8 },
    Sync { who: usize, stale: bool },
    Heartbeat { who: usize },
    Leave { who: usize },
    Pass { ms: i64 },
    Commit { fails: bool },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..9_usize, prop::option::weighted(0.3, 0..3_u8), prop_oneof![Just(3_i16), Just(9)], 0..4_u8)
            .prop_map(|(who, instance, version, protocols)| {
                Event::Join { who, instance, version, protocols }
            }),
        4 => (0..8_usize, prop::bool::weighted(0.1)).prop_map(|(who, stale)| Event::Sync { who, stale }),
        3 => (0..8_usize).prop_map(|who| Event::Heartbeat { who }),
        1 => (0..8_usize).prop_map(|who| Event::Leave { who }),
        3 => prop_oneof![Just(1_i64), Just(500), Just(3_000), Just(9_000), Just(61_000)]
            .prop_map(|ms| Event::Pass { ms }),
        3 => prop::bool::weighted(0.2).prop_map(|fails| Event::Commit { fails }),
    ]
}

const PROTOCOLS: [&[(&str, &[u8])]; 4] = [
    &[("range", b"")],
    &[("range", b"x"), ("sticky", b"")],
    &[("sticky", b""), ("range", b"")],
    &[("sticky", b"y")],
];

struct Run {
    sim: Sim,
    ids: Vec<String>,
    join_tokens: Vec<Token>,
    sync_tokens: HashMap<Token, i32>,
    committed: usize,
}

impl Run {
    fn id(&self, who: usize) -> String {
        if self.ids.is_empty() {
            "nobody".to_owned()
        } else {
            self.ids[who % self.ids.len()].clone()
        }
    }

    fn instance_of(&self, id: &str) -> Option<String> {
        self.sim.group.members.get(id).and_then(|member| member.group_instance_id.clone())
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Join { who, instance, version, protocols: set } => {
                // Every ninth is a stranger without an id; the others come back.
                let id =
                    if *who == 8 || self.ids.is_empty() { String::new() } else { self.id(*who) };
                let instance_id = if id.is_empty() {
                    instance.map(|number| format!("i{number}"))
                } else {
                    self.instance_of(&id)
                };
                let request = JoinGroupRequest {
                    group_instance_id: instance_id,
                    protocols: protocols(PROTOCOLS[usize::from(*set)]),
                    ..with_id(&id)
                };
                let token = self.sim.join(&request, *version);
                self.join_tokens.push(token);
            }
            Event::Sync { who, stale } => {
                let id = self.id(*who);
                let generation = self.sim.group.generation() - i32::from(*stale);
                let token = self.sim.sync(&id, generation, &[]);
                self.sync_tokens.insert(token, generation);
            }
            Event::Heartbeat { who } => {
                let (id, generation) = (self.id(*who), self.sim.group.generation());
                self.sim.heartbeat(&id, generation);
            }
            Event::Leave { who } => {
                let id = self.id(*who);
                self.sim.leave(&id, None);
            }
            Event::Pass { ms } => self.sim.pass(*ms),
            Event::Commit { fails } => self.commit(*fails),
        }
        for response in self.sim.joins.values() {
            if !response.member_id.is_empty() && !self.ids.contains(&response.member_id) {
                self.ids.push(response.member_id.clone());
            }
        }
        self.ids.sort();
    }

    fn commit(&mut self, fails: bool) {
        if let Some((id, _)) = self.sim.appends.get(self.committed).cloned() {
            self.committed += 1;
            let error = fails.then_some(ErrorCode::KafkaStorageError);
            let now = self.sim.now();
            self.sim.group.append_result(now, id, error);
            self.sim.settle();
        }
    }

    fn check(&self) {
        let group = &self.sim.group;
        let members = &group.members;
        let waiting = members.values().filter(|member| member.awaiting_join.is_some()).count();
        assert_eq!(waiting, group.awaiting_joins);
        for (id, member) in members {
            assert_eq!(*id, member.member_id);
            assert!(!group.pending_joins.contains_key(id), "both a member and pending");
            if let Some(instance) = &member.group_instance_id {
                assert_eq!(group.static_members.get(instance), Some(id));
            }
        }
        let statics = members.values().filter(|member| member.is_static()).count();
        assert_eq!(statics, group.static_members.len());
        let texts = members.values().map(super::super::Member::weight_of_texts);
        let pending = group.pending_joins.keys().map(|id| super::super::pending_weight(id));
        assert_eq!(group.text_bytes, texts.chain(pending).sum::<usize>());
        let assigned = members.values().map(|member| member.assignment.len());
        assert_eq!(group.assigned_bytes, assigned.sum::<usize>());
        for (name, count) in group.known_protocols.counts() {
            let known =
                members.values().filter(|member| member.protocols.iter().any(|p| p.0 == *name));
            assert_eq!(known.count(), *count, "{name}");
        }
        assert_eq!(group.leader.is_some(), !members.is_empty());
        assert!(group.leader.as_ref().is_none_or(|leader| members.contains_key(leader)));
        assert!(group.pending_syncs.iter().all(|id| members.contains_key(id)));
        match group.state() {
            State::Empty => assert!(members.is_empty()),
            State::Stable | State::CompletingRebalance => {
                assert!(!members.is_empty());
                let protocol = group.protocol_name.as_deref().unwrap();
                let parked = |m: &super::super::Member| m.awaiting_join.is_some();
                for member in members.values().filter(|member| !parked(member)) {
                    assert!(member.protocols.iter().any(|(name, _)| name == protocol));
                }
            }
            State::PreparingRebalance => {
                assert!(group.join_phase.is_some(), "a rebalance that nothing would end");
            }
            State::Dead => unreachable!("the group was not killed"),
        }
        self.check_answers();
    }

    /// Every request is answered once (twice is caught where answers come in) or parked.
    fn check_answers(&self) {
        let members = &self.sim.group.members;
        let joins: HashSet<Token> = members.values().filter_map(|m| m.awaiting_join).collect();
        for token in &self.join_tokens {
            assert_ne!(joins.contains(token), self.sim.joins.contains_key(token), "{token:?}");
        }
        let syncs: HashSet<Token> = members.values().filter_map(|m| m.awaiting_sync).collect();
        for token in self.sync_tokens.keys() {
            assert_ne!(syncs.contains(token), self.sim.syncs.contains_key(token), "{token:?}");
        }
        for member in members.values() {
            let watched = member.deadline_ms.is_some() || member.has_satisfied_heartbeat();
            assert!(watched, "a member that would never die: {member:?}");
        }
        let next = self.sim.group.next_deadline();
        assert!(next.is_none_or(|at| self.sim.wake_at.is_some_and(|wake| wake <= at)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_group_keeps_its_promises(
        events in prop::collection::vec(event(), 1..120),
        delay_ms in prop_oneof![Just(0), Just(3_000)],
        auto_commit in any::<bool>(),
    ) {
        let mut sim = Sim::new(limits(delay_ms, 5));
        sim.auto_commit = auto_commit;
        let mut run = Run {
            sim,
            ids: Vec::new(),
            join_tokens: Vec::new(),
            sync_tokens: HashMap::new(),
            committed: 0,
        };
        for event in &events {
            run.apply(event);
            run.check();
        }
        // Without further calls all members expire, and no request waits any more.
        while run.committed < run.sim.appends.len() && !auto_commit {
            run.commit(false);
            run.check();
        }
        run.sim.pass(3_000_000);
        prop_assert_eq!(run.sim.group.state(), State::Empty);
        for token in &run.join_tokens {
            prop_assert!(run.sim.joins.contains_key(token));
        }
    }
}
