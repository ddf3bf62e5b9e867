//! Groups of members around a simple coordinator. While members come, go or are forgotten, no two
//! of them hold one partition, and in the end every partition is held.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const PARTITIONS: i32 = 5;

#[derive(Clone, Debug)]
enum Event {
    Come,
    Close { who: usize },
    Die { who: usize },
    Forget { who: usize },
    Turn { who: usize },
    Look { who: usize },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => Just(Event::Come),
        1 => (0..6_usize).prop_map(|who| Event::Close { who }),
        1 => (0..6_usize).prop_map(|who| Event::Die { who }),
        1 => (0..6_usize).prop_map(|who| Event::Forget { who }),
        12 => (0..6_usize).prop_map(|who| Event::Turn { who }),
        8 => (0..6_usize).prop_map(|who| Event::Look { who }),
    ]
}

/// Knows its members, collects joins, and waits for the leader's assignments.
#[derive(Default)]
struct Coordinator {
    generation: i32,
    next_id: usize,
    /// Member id -> the metadata of its last join.
    members: BTreeMap<String, Bytes>,
    joining: BTreeMap<String, Bytes>,
    rebalancing: bool,
    assignments: Option<BTreeMap<String, Bytes>>,
}

impl Coordinator {
    fn begin_rebalance(&mut self) {
        self.rebalancing = true;
        self.assignments = None;
    }

    fn forget(&mut self, id: &str) {
        self.joining.remove(id);
        if self.members.remove(id).is_some() {
            self.begin_rebalance();
        }
    }

    /// The answer to a heartbeat or a sync of this member.
    fn judge(&self, member: &GroupMember) -> ErrorCode {
        if !self.members.contains_key(&member.member_id) {
            ErrorCode::UnknownMemberId
        } else if self.generation != member.generation {
            ErrorCode::IllegalGeneration
        } else if self.rebalancing {
            ErrorCode::RebalanceInProgress
        } else {
            ErrorCode::None
        }
    }
}

struct Client {
    run: Run,
    /// A request that is not answered yet.
    pending: Option<Action>,
    /// What its user reads, after the events it saw.
    holding: BTreeSet<TopicPartition>,
}

struct World {
    coordinator: Coordinator,
    clients: Vec<Client>,
    assignor: Assignor,
    now: Instant,
}

impl World {
    fn new(assignor: Assignor) -> Self {
        let coordinator = Coordinator::default();
        Self { coordinator, clients: Vec::new(), assignor, now: Instant::now() }
    }

    fn apply(&mut self, event: &Event) {
        let (Event::Close { who }
        | Event::Die { who }
        | Event::Forget { who }
        | Event::Turn { who }
        | Event::Look { who }) = event
        else {
            if self.clients.len() < 4 {
                let run = Run::of(config(&[self.assignor]));
                self.clients.push(Client { run, pending: None, holding: BTreeSet::new() });
            }
            return;
        };
        if self.clients.is_empty() {
            return;
        }
        let at = who % self.clients.len();
        let id = self.clients[at].run.member.member_id.clone();
        match event {
            Event::Turn { .. } => self.turn(at),
            Event::Look { .. } => self.look(at),
            Event::Forget { .. } => self.coordinator.forget(&id),
            // The member reads nothing from now on; its session ends some time later.
            _ => {
                self.clients.remove(at);
                self.coordinator.forget(&id);
            }
        }
    }

    fn look(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.run.member.user_called(self.now);
        let Some(event) = client.run.member.show_event() else { return };
        match &event {
            GroupEvent::Assign(partitions) => client.holding.extend(partitions.iter().cloned()),
            GroupEvent::Revoke(gone) | GroupEvent::Lost(gone) => {
                client.holding.retain(|one| !gone.contains(one));
            }
        }
        client.run.member.acknowledge();
    }

    /// One member does one thing, or asks again what was not answered.
    fn turn(&mut self, at: usize) {
        self.now += 3_100 * MS;
        let now = self.now;
        let client = &mut self.clients[at];
        client.run.member.user_called(now);
        let action = client.pending.take().unwrap_or_else(|| client.run.member.next(now));
        match action.clone() {
            Action::FindCoordinator => client.run.member.coordinator_found(now),
            Action::Join { member_id, protocols, .. } => {
                self.join(at, action, &member_id, protocols[0].1.clone());
            }
            Action::Sync { assignments, .. } => self.sync(at, action, assignments),
            Action::Heartbeat => {
                let code = self.coordinator.judge(&client.run.member);
                client.run.member.heartbeat_answered(code, now);
            }
            Action::Leave { member_id, .. } => self.coordinator.forget(&member_id),
            Action::CountPartitions(_) | Action::Wait(_) => {}
        }
    }

    fn join(&mut self, at: usize, action: Action, member_id: &str, metadata: Bytes) {
        let coordinator = &mut self.coordinator;
        let member = &mut self.clients[at].run.member;
        if member_id.is_empty() {
            coordinator.next_id += 1;
            let id = format!("m{}", coordinator.next_id);
            coordinator.members.insert(id.clone(), Bytes::new());
            coordinator.begin_rebalance();
            member.join_failed(ErrorCode::MemberIdRequired, &id, self.now);
            return;
        }
        if !coordinator.members.contains_key(member_id) {
            member.join_failed(ErrorCode::UnknownMemberId, "", self.now);
            return;
        }
        coordinator.begin_rebalance();
        coordinator.joining.insert(member_id.to_owned(), metadata);
        self.clients[at].pending = Some(action);
        if coordinator.members.keys().all(|id| coordinator.joining.contains_key(id)) {
            coordinator.generation += 1;
            coordinator.rebalancing = false;
            coordinator.members = std::mem::take(&mut coordinator.joining);
            self.answer_joins();
        }
    }

    fn answer_joins(&mut self) {
        let joined = |(id, metadata): (&String, &Bytes)| JoinedMember {
            member_id: id.clone(),
            instance_id: None,
            metadata: metadata.clone(),
        };
        let members: Vec<_> = self.coordinator.members.iter().map(joined).collect();
        let leader = members[0].member_id.clone();
        for client in &mut self.clients {
            let id = client.run.member.member_id.clone();
            let known = self.coordinator.members.contains_key(&id);
            if !matches!(client.pending, Some(Action::Join { .. })) || !known {
                continue;
            }
            client.pending = None;
            let answer = Joined {
                generation: self.coordinator.generation,
                protocol: self.assignor.name().to_owned(),
                leader: leader.clone(),
                skip_assignment: false,
                members: if id == leader { members.clone() } else { Vec::new() },
                member_id: id,
            };
            client.run.member.joined(answer, self.now);
            client.run.member.counted([(Arc::from("x"), PARTITIONS)].into());
        }
    }

    fn sync(&mut self, at: usize, action: Action, assignments: Vec<(String, Bytes)>) {
        let client = &mut self.clients[at];
        let member = &mut client.run.member;
        let code = self.coordinator.judge(member);
        if !code.is_none() {
            member.sync_failed(code, self.now);
            return;
        }
        if !assignments.is_empty() {
            self.coordinator.assignments = Some(assignments.into_iter().collect());
        }
        match &self.coordinator.assignments {
            Some(all) => {
                let own = all.get(&member.member_id).cloned().unwrap_or_default();
                member.synced(own, self.now);
            }
            None => client.pending = Some(action),
        }
    }

    /// Members that were forgotten and do not know yet are left out: their commits are refused.
    fn check_that_nothing_is_held_twice(&self) -> Result<(), TestCaseError> {
        let mut held = BTreeSet::new();
        let knows =
            |client: &&Client| self.coordinator.members.contains_key(&client.run.member.member_id);
        for client in self.clients.iter().filter(knows) {
            for partition in &client.holding {
                prop_assert!(held.insert(partition.clone()), "{} is held twice", partition);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn no_two_members_hold_one_partition_and_in_the_end_all_are_held(
        cooperative in any::<bool>(),
        events in prop::collection::vec(event(), 0..150),
    ) {
        let assignor = if cooperative { Assignor::CooperativeSticky } else { Assignor::Range };
        let mut world = World::new(assignor);
        for event in &events {
            world.apply(event);
            world.check_that_nothing_is_held_twice()?;
        }
        for _ in 0..60 {
            for at in 0..world.clients.len() {
                world.turn(at);
                world.look(at);
                world.check_that_nothing_is_held_twice()?;
            }
        }
        let held: usize = world.clients.iter().map(|client| client.holding.len()).sum();
        let expected = if world.clients.is_empty() { 0 } else { PARTITIONS as usize };
        prop_assert_eq!(held, expected);
        prop_assert!(world.clients.iter().all(|client| client.run.member.is_settled()));
    }
}
