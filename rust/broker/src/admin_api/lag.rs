//! Lag of partitions that a group's coordinator does not lead.
//!
//! The coordinator knows what is committed, and the leader knows where the log ends.
//! In an answer of all brokers, the coordinators name such partitions. The broker that adds up then
//! asks the others for their lag, in a second round.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::asked::Asked;
use super::commands::in_turn;
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;

/// The path of the question.
pub(super) const PATH: &str = "/lag";
/// The parameter that has the partitions.
const OFFSETS: &str = "offsets";
/// The parameters of the question.
pub(super) const OF_BROKERS: &[&str] = &[OFFSETS];
/// Partitions of one answer.
pub(super) const MOST: usize = 10_000;
/// Partitions of a question whose lag has seconds too: each may read a header of a batch.
const MOST_IN_SECONDS: usize = 1_000;

/// A topic, a partition of it, and the offset that a group has committed.
pub(super) type Place = (String, i32, i64);

/// What a broker with a replica knows of a place.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Known {
    high_watermark: i64,
    lag_records: i64,
    lag_seconds: Option<f64>,
}

/// Answers another broker: for each place what this one knows, or `null`.
pub(super) fn tell(api: &AdminApi, asked: &Asked) -> Answer {
    let places: Vec<Place> =
        serde_json::from_str(asked.text(OFFSETS).unwrap_or("[]")).map_err(|error| {
            let hint = "let all brokers have one version.";
            let what = "the question of a broker cannot be read";
            Refusal::new(StatusCode::BAD_REQUEST, what, error.to_string(), hint)
        })?;
    json(&known(api, &places))
}

fn known(api: &AdminApi, places: &[Place]) -> Vec<Option<Known>> {
    let (now_ms, in_seconds) = (api.clock.wall_ms(), places.len() <= MOST_IN_SECONDS);
    let one = |(topic, index, offset): &Place| {
        let partition = api.partitions.find_by_name(topic, *index).ok()?;
        let seconds = || partition.lag_seconds(*offset, now_ms);
        Some(Known {
            high_watermark: partition.high_watermark().0,
            lag_records: partition.lag_records(*offset),
            lag_seconds: in_seconds.then(seconds).flatten(),
        })
    };
    places.iter().take(MOST).map(one).collect()
}

/// Completes the lag of groups in an answer of all brokers.
pub(super) async fn fill(
    api: &Arc<AdminApi>,
    turns: &Arc<Semaphore>,
    others: &[(i32, i64)],
    all: &mut Value,
) -> Result<(), Refusal> {
    let mut places: Vec<Place> = rows(all).flat_map(|row| places_of(row)).collect();
    places.sort_unstable();
    places.dedup();
    places.truncate(MOST);
    if places.is_empty() {
        // Nothing to ask; and an answer without groups has no such members.
        return Ok(());
    }
    let text = serde_json::to_string(&places).unwrap_or_default();
    let question = |_| Asked::with(vec![(OFFSETS.to_owned(), text.clone())]);
    let said = api.ask_all(others, PATH, question).await;
    let (here, asked) = (Arc::clone(api), places.clone());
    let own = in_turn(Arc::clone(turns), move || Ok(known(&here, &asked))).await?;
    let mut best: HashMap<Place, Known> = HashMap::new();
    // A broker that does not answer, or not so, knows nothing.
    let told = said.into_iter().filter_map(|(_, told)| told?.ok());
    let told = told.filter_map(|body| serde_json::from_slice::<Vec<Option<Known>>>(&body).ok());
    for told in told.chain([own]) {
        for (place, known) in places.iter().zip(told) {
            let Some(known) = known else { continue };
            // The leader's end of the log is ahead of those of its followers.
            let best = best.entry(place.clone()).or_insert(known);
            if known.high_watermark > best.high_watermark {
                *best = known;
            }
        }
    }
    rows(all).for_each(|row| complete(row, &best));
    Ok(())
}

/// The groups of an answer: those of a list, or the one that it describes.
fn rows(all: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    if all.get("groups").is_some_and(Value::is_array) {
        return Box::new(all.get_mut("groups").and_then(Value::as_array_mut).into_iter().flatten());
    }
    Box::new(std::iter::once(all))
}

/// The places that a group names.
fn places_of(row: &Value) -> Vec<Place> {
    row.get("elsewhere").and_then(|of| Vec::deserialize(of).ok()).unwrap_or_default()
}

fn complete(row: &mut Value, best: &HashMap<Place, Known>) {
    let found: Vec<(Place, Known)> = places_of(row)
        .into_iter()
        .filter_map(|place| best.get(&place).map(|known| (place.clone(), *known)))
        .collect();
    let Some(members) = row.as_object_mut() else { return };
    members.remove("elsewhere");
    let add = |member: Option<&mut Value>, more: i64| {
        if let Some(value) = member {
            *value = value.as_i64().unwrap_or_default().saturating_add(more).into();
        }
    };
    for (_, known) in &found {
        add(members.get_mut("lag_records"), known.lag_records);
        add(members.get_mut("partitions_elsewhere"), -1);
    }
    let offsets = members.get_mut("offsets").and_then(Value::as_array_mut);
    let found: HashMap<Place, Known> = found.into_iter().collect();
    for offset in offsets.into_iter().flatten().filter_map(Value::as_object_mut) {
        let topic = offset.get("topic").and_then(Value::as_str).unwrap_or_default();
        let index = offset.get("partition").and_then(Value::as_i64);
        let committed = offset.get("committed_offset").and_then(Value::as_i64);
        let (Some(index), Some(committed)) = (index, committed) else { continue };
        let Ok(index) = i32::try_from(index) else { continue };
        if let Some(known) = found.get(&(topic.to_owned(), index, committed)) {
            offset.insert("high_watermark".to_owned(), known.high_watermark.into());
            offset.insert("lag_records".to_owned(), known.lag_records.into());
            offset.insert("lag_seconds".to_owned(), known.lag_seconds.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lag_that_others_know_completes_that_of_the_coordinator() {
        let mut row = json!({
            "lag_records": 5, "partitions_elsewhere": 2,
            "elsewhere": [["t", 1, 40], ["t", 2, 0]],
            "offsets": [
                {"topic": "t", "partition": 0, "committed_offset": 1, "lag_records": 5},
                {"topic": "t", "partition": 1, "committed_offset": 40, "lag_records": null},
                {"topic": "t", "partition": 2, "committed_offset": 0, "lag_records": null},
            ],
        });
        let known = Known { high_watermark: 47, lag_records: 7, lag_seconds: Some(0.5) };
        let best = HashMap::from([(("t".to_owned(), 1, 40), known)]);
        complete(&mut row, &best);
        assert_eq!((&row["lag_records"], &row["partitions_elsewhere"]), (&json!(12), &json!(1)));
        assert_eq!(row.get("elsewhere"), None);
        let lags = row["offsets"].as_array().expect("rows").iter().map(|of| &of["lag_records"]);
        assert_eq!(lags.collect::<Vec<_>>(), [&json!(5), &json!(7), &Value::Null]);
        assert_eq!(row["offsets"][1]["high_watermark"], 47);
    }

    #[test]
    fn groups_of_another_form_do_no_harm() {
        for odd in [json!(null), json!([1]), json!({"elsewhere": 3}), json!({"elsewhere": [[1]]})] {
            let mut row = odd;
            complete(&mut row, &HashMap::new());
            assert_eq!(row.get("elsewhere"), None);
        }
    }
}
