//! How the answers of several brokers to one question become one.
//!
//! Each sum begins with the first answer, that of the broker that was asked if it has one. Facts of
//! the cluster's metadata are those that it knows. Figures of single brokers are added up, and rows
//! of single brokers carry the id of theirs. A member of a kind that is not expected counts for
//! nothing: the answers come from other processes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::asked::{Asked, MOST};

type Told = Vec<(i32, Value)>;

/// `/overview`
pub(super) fn overview(told: Told, _: &Asked) -> Value {
    first_and(told, |sum, _, other| {
        add_at(sum, "/here", &other);
        add_at(sum, "/replication", &other);
        add_followers(sum, &other);
        let of_broker = |alert: &Value| alert.get("broker_id").is_some_and(Value::is_i64);
        let alerts = list(other, "alerts").into_iter().filter(of_broker).collect();
        append(sum, "alerts", alerts);
    })
}

/// Adds the followers that another leader has on each broker.
fn add_followers(sum: &mut Value, other: &Value) {
    const FOLLOWERS: &str = "/replication/followers";
    let id = |row: &Value| row.get("broker_id").and_then(Value::as_i64);
    let theirs = other.pointer(FOLLOWERS).and_then(Value::as_array);
    let Some(rows) = sum.pointer_mut(FOLLOWERS).and_then(Value::as_array_mut) else { return };
    for more in theirs.into_iter().flatten() {
        let Some(broker_id) = id(more) else { continue };
        match rows.iter_mut().find(|row| id(row) == Some(broker_id)) {
            Some(row) => {
                add_at(row, "", more);
                // It is no figure.
                row["broker_id"] = broker_id.into();
            }
            None => rows.push(more.clone()),
        }
    }
    rows.sort_by_key(id);
}

/// `/cluster/partitions`: of a partition, what its leader knows.
pub(super) fn partitions(told: Told, _: &Asked) -> Value {
    let key = |row: &Value| {
        let topic_id = row.get("topic_id").and_then(Value::as_str)?.to_owned();
        Some((topic_id, row.get("partition").and_then(Value::as_i64)?))
    };
    first_and(told, |sum, broker_id, mut other| {
        // The metadata of two brokers may differ a little, and so may their pages.
        let mut known = BTreeMap::new();
        let others = other.get_mut("partitions").and_then(Value::as_array_mut);
        for row in others.into_iter().flatten() {
            let here = row.get_mut("here").map(Value::take).filter(|here| !here.is_null());
            known.extend(key(row).zip(here));
        }
        let rows = sum.get_mut("partitions").and_then(Value::as_array_mut);
        for row in rows.into_iter().flatten() {
            let leads = row.get("leader").and_then(Value::as_i64) == Some(i64::from(broker_id));
            let lacks = row.get("here").is_none_or(Value::is_null);
            let here = key(row).and_then(|key| known.remove(&key));
            if let (true, Some(row), Some(here)) = (leads || lacks, row.as_object_mut(), here) {
                row.insert("here".to_owned(), here);
            }
        }
    })
}

/// `/topics`
pub(super) fn topics(told: Told, _: &Asked) -> Value {
    first_and(told, |sum, _, mut other| {
        let Some(rows) = sum.get_mut("topics").and_then(Value::as_array_mut) else { return };
        let others = other.get_mut("topics").and_then(Value::as_array_mut);
        for theirs in others.into_iter().flatten() {
            // By its id: a topic may have been made again between two answers.
            let is_same = |row: &&mut Value| row.get("id") == theirs.get("id");
            if let Some(row) = rows.iter_mut().find(is_same) {
                add_at(row, "/here", theirs);
            }
        }
    })
}

/// `/topics/{name}`: of a partition, what its leader has.
pub(super) fn topic(told: Told, _: &Asked) -> Value {
    first_and(told, |sum, broker_id, mut other| {
        if sum.pointer("/topic/id") != other.pointer("/topic/id") {
            return;
        }
        add_at(sum, "/topic/here", &other);
        let Some(rows) = sum.get_mut("partitions").and_then(Value::as_array_mut) else { return };
        let others = other.get_mut("partitions").and_then(Value::as_array_mut);
        for (row, theirs) in rows.iter_mut().zip(others.into_iter().flatten()) {
            let leads = row.get("leader").and_then(Value::as_i64) == Some(i64::from(broker_id));
            let is_same = row.get("partition") == theirs.get("partition");
            let lacks = row.get("here").is_none_or(Value::is_null);
            if is_same
                && (leads || lacks)
                && let (Some(row), Some(here)) = (row.as_object_mut(), theirs.get_mut("here"))
            {
                row.insert("here".to_owned(), here.take());
            }
        }
    })
}

/// `/groups`: each group once, as its coordinator has it.
pub(super) fn groups(told: Told, asked: &Asked) -> Value {
    let limit = asked.limit().unwrap_or(MOST);
    let mut has_more = false;
    let mut rows: Vec<Value> = Vec::new();
    let mut sum = Map::new();
    let mut loading = false;
    for (broker_id, mut other) in told {
        has_more |= other.get("next").is_some_and(|next| !next.is_null());
        loading |= other.get("loading") == Some(&Value::Bool(true));
        rows.extend(rows_of(&mut other, "groups", broker_id));
        for member in ["total", "matched"] {
            let value = other.get(member).cloned().unwrap_or_default();
            add(sum.entry(member).or_insert(Value::from(0)), &value);
        }
    }
    rows.sort_by(|one, other| text(one, "id").cmp(text(other, "id")));
    rows.dedup_by(|one, other| text(one, "id") == text(other, "id"));
    has_more |= rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| has_more).map(|row| Value::from(text(row, "id")));
    sum.insert("next".to_owned(), next.unwrap_or_default());
    sum.insert("loading".to_owned(), loading.into());
    sum.insert("groups".to_owned(), rows.into());
    sum.into()
}

/// `/groups/{id}`: its coordinator alone knows it.
pub(super) fn group(mut told: Told, _: &Asked) -> Value {
    match told.is_empty() {
        true => Value::Null,
        false => {
            let (coordinator_id, mut group) = told.swap_remove(0);
            if let Some(members) = group.as_object_mut() {
                members.insert("coordinator_id".to_owned(), coordinator_id.into());
            }
            group
        }
    }
}

/// `/clients`: the first page of each broker.
pub(super) fn clients(told: Told, _: &Asked) -> Value {
    let mut sum = first_and(with_ids(told, "connections"), |sum, _, mut other| {
        let total = other.get("total").cloned().unwrap_or_default();
        if let Some(own) = sum.get_mut("total") {
            add(own, &total);
        }
        let rows = other.get_mut("connections").map(Value::take).unwrap_or_default();
        append(sum, "connections", rows.as_array().cloned().unwrap_or_default());
    });
    if let Some(rows) = sum.get_mut("connections").and_then(Value::as_array_mut) {
        rows.truncate(MOST);
    }
    // A connection's number is that of its broker: there is no next page of all.
    if let Some(members) = sum.as_object_mut() {
        members.insert("next".to_owned(), Value::Null);
    }
    sum
}

/// `/requests`: the newest of all brokers, the oldest of them first.
pub(super) fn requests(told: Told, asked: &Asked) -> Value {
    let limit = asked.limit().unwrap_or(MOST);
    let mut sum = first_and(with_ids(told, "requests"), |sum, _, other| {
        append(sum, "requests", list(other, "requests"));
    });
    if let Some(rows) = sum.get_mut("requests").and_then(Value::as_array_mut) {
        let age = |row: &Value| row.get("age_ms").and_then(Value::as_f64).unwrap_or_default();
        rows.sort_by(|one, other| age(other).total_cmp(&age(one)));
        rows.drain(..rows.len().saturating_sub(limit));
    }
    sum
}

fn first_and(told: Told, mut take: impl FnMut(&mut Value, i32, Value)) -> Value {
    let mut told = told.into_iter();
    let mut sum = told.next().map(|(_, first)| first).unwrap_or_default();
    told.for_each(|(broker_id, other)| take(&mut sum, broker_id, other));
    sum
}

/// The answers, with the broker's id in each row.
fn with_ids(told: Told, member: &str) -> Told {
    let with_id = |(broker_id, mut answer): (i32, Value)| {
        let rows: Vec<Value> = rows_of(&mut answer, member, broker_id);
        if let Some(members) = answer.as_object_mut() {
            members.insert(member.to_owned(), rows.into());
        }
        (broker_id, answer)
    };
    told.into_iter().map(with_id).collect()
}

/// Takes the rows of a list out of an answer, and writes whose they are into each.
fn rows_of(answer: &mut Value, member: &str, broker_id: i32) -> Vec<Value> {
    let rows = answer.get_mut(member).map(Value::take).unwrap_or_default();
    let Value::Array(mut rows) = rows else { return Vec::new() };
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        row.insert("broker_id".to_owned(), broker_id.into());
    }
    rows
}

fn list(mut of: Value, member: &str) -> Vec<Value> {
    match of.get_mut(member).map(Value::take) {
        Some(Value::Array(rows)) => rows,
        _ => Vec::new(),
    }
}

fn append(to: &mut Value, member: &str, rows: Vec<Value>) {
    if let Some(list) = to.get_mut(member).and_then(Value::as_array_mut) {
        list.extend(rows);
    }
}

fn text<'a>(row: &'a Value, member: &str) -> &'a str {
    row.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Adds every figure of the object at `pointer` of `from` to that of `to`.
fn add_at(to: &mut Value, pointer: &str, from: &Value) {
    let (to, from) = (to.pointer_mut(pointer), from.pointer(pointer));
    let (Some(Value::Object(to)), Some(Value::Object(from))) = (to, from) else { return };
    for (name, value) in from {
        if let Some(own) = to.get_mut(name) {
            add(own, value);
        }
    }
}

fn add(to: &mut Value, value: &Value) {
    if let (Some(one), Some(other)) = (to.as_u64(), value.as_u64()) {
        *to = one.saturating_add(other).into();
    } else if let (Some(one), Some(other)) = (to.as_f64(), value.as_f64()) {
        *to = (one + other).into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(limit: usize) -> Asked {
        Asked::with(vec![("limit".to_owned(), limit.to_string())])
    }

    #[test]
    fn figures_of_brokers_are_added_and_facts_of_the_cluster_are_not() {
        let of = |bytes, groups| {
            let here = json!({"bytes": bytes, "groups": groups});
            json!({"partitions": 9, "here": here, "alerts": []})
        };
        let all = overview(vec![(1, of(5, 1)), (2, of(7, 0)), (3, of(1, 2))], &asked(1));
        assert_eq!(all["here"], json!({"bytes": 13, "groups": 3}));
        assert_eq!(all["partitions"], 9);
    }

    #[test]
    fn followers_of_all_leaders_are_added_by_their_broker() {
        let row = |id, behind| json!({"broker_id": id, "replicas": 1, "records_behind": behind});
        let of = |end, followers: Vec<Value>| {
            let replication = json!({"log_end_offset": end, "followers": followers});
            json!({"here": {}, "alerts": [], "replication": replication})
        };
        let told = vec![
            (1, of(10, vec![row(2, 4), row(3, 0)])),
            (2, of(5, vec![row(1, 7), row(3, 2)])),
            (3, json!({"replication": {"followers": [3, {"broker_id": "x"}]}})),
        ];
        let all = overview(told, &asked(1));
        let three = json!({"broker_id": 3, "replicas": 2, "records_behind": 2});
        assert_eq!(all["replication"]["followers"], json!([row(1, 7), row(2, 4), three]));
        assert_eq!(all["replication"]["log_end_offset"], 15);
    }

    #[test]
    fn a_partition_that_moves_shows_what_its_leader_knows() {
        let row = |id: &str, here: Value| {
            let mut row = json!({"topic_id": id, "partition": 0, "leader": 2});
            row["here"] = here;
            row
        };
        let of = |rows: Vec<Value>| json!({"partitions": rows});
        let told = vec![
            (1, of(vec![row("a", Value::Null), row("b", json!("led once"))])),
            // It does not know of "a" yet that it leads.
            (2, of(vec![row("b", json!("leads")), row("c", json!("not on the page"))])),
            (3, of(vec![row("b", json!("led once")), row("a", json!("leads yet"))])),
        ];
        let all = partitions(told, &asked(1));
        assert_eq!(
            all["partitions"],
            json!([row("a", json!("leads yet")), row("b", json!("leads"))])
        );
    }

    #[test]
    fn an_alert_of_another_broker_is_shown_and_one_of_the_cluster_once() {
        let cluster = json!({"what": "2 partitions have no leader", "broker_id": null});
        let disk = json!({"what": "1 replicas on broker 2 are offline", "broker_id": 2});
        let of = |alerts: Vec<&Value>| json!({"here": {}, "alerts": alerts});
        let told = vec![(1, of(vec![&cluster])), (2, of(vec![&cluster, &disk]))];
        assert_eq!(overview(told, &asked(1))["alerts"], json!([cluster, disk]));
    }

    #[test]
    fn a_topic_that_was_made_again_adds_nothing() {
        let of = |id: &str, bytes| json!({"topics": [{"id": id, "here": {"bytes": bytes}}]});
        let told = vec![(1, of("a", 1)), (2, of("b", 10)), (3, of("a", 100))];
        assert_eq!(topics(told, &asked(1))["topics"][0]["here"]["bytes"], 101);
    }

    #[test]
    fn a_partition_shows_what_its_leader_has() {
        let of = |here: Value| {
            let row = json!({"partition": 0, "leader": 2, "here": here});
            json!({"topic": {"id": "a", "here": {"bytes": 1}}, "partitions": [row]})
        };
        let told = |first| vec![(1, of(first)), (3, of(json!("3"))), (2, of(json!("2")))];
        for first in [json!("1"), Value::Null] {
            let all = topic(told(first), &asked(1));
            assert_eq!(all["partitions"][0]["here"], "2");
            assert_eq!(all["topic"]["here"]["bytes"], 3);
        }
    }

    #[test]
    fn a_page_of_groups_ends_where_the_next_begins() {
        let of = |ids: &[&str], next: Option<&str>| {
            let groups: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
            let matched = ids.len();
            json!({"total": 5, "matched": matched, "groups": groups, "next": next})
        };
        // The second broker has more behind "c", so nothing behind it may be shown yet.
        let told = vec![(1, of(&["d", "e"], None)), (2, of(&["a", "c"], Some("c")))];
        let all = groups(told, &asked(2));
        let shown: Vec<&str> =
            all["groups"].as_array().expect("rows").iter().map(|row| text(row, "id")).collect();
        assert_eq!((shown, &all["next"], &all["total"]), (vec!["a", "c"], &json!("c"), &json!(10)));
        let whose = all["groups"][0]["broker_id"].as_i64();
        assert_eq!(whose, Some(2));
    }

    #[test]
    fn the_newest_requests_of_all_brokers_are_kept_in_their_order() {
        let of = |ages: &[f64]| {
            let rows: Vec<Value> = ages.iter().map(|age| json!({"age_ms": age})).collect();
            json!({"requests": rows})
        };
        let all = requests(vec![(1, of(&[9.0, 1.0])), (2, of(&[5.0, 3.0]))], &asked(3));
        let rows = all["requests"].as_array().expect("rows").iter();
        let rows: Vec<_> =
            rows.map(|row| (row["age_ms"].as_f64(), row["broker_id"].as_i64())).collect();
        assert_eq!(rows, [(Some(5.0), Some(2)), (Some(3.0), Some(2)), (Some(1.0), Some(1))]);
    }

    #[test]
    fn answers_of_another_form_add_nothing_and_do_no_harm() {
        let odd = || vec![(1, json!([1])), (2, json!({"here": 3, "topics": {}, "groups": 7}))];
        for sum in [overview, partitions, topics, topic, groups, group, clients, requests] {
            sum(odd(), &asked(1));
            sum(odd().into_iter().rev().collect(), &asked(1));
            sum(vec![], &asked(1));
        }
    }
}
