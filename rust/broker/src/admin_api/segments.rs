//! `/topics/{name}/partitions/{partition}/segments`: the files of a log on this broker.

use axum::http::StatusCode;
use kafkalite_log::SegmentFigures;
use kafkalite_protocol::Offset;
use serde::Serialize;

use super::asked::Asked;
use super::topics::{find, replica};
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;

#[derive(Serialize)]
struct Segments<'a> {
    broker_id: i32,
    topic: &'a str,
    partition: i32,
    /// Segments of the log.
    total: usize,
    segments: Vec<Segment>,
    /// What `after` has to be for the next page.
    next: Option<i64>,
}

#[derive(Serialize)]
struct Segment {
    base_offset: i64,
    end_offset: i64,
    bytes: u32,
    /// Appends go to it.
    active: bool,
    /// The largest timestamp of its records; `None` if no record has one.
    newest_timestamp_ms: Option<i64>,
    modified_ms: i64,
    offset_index_entries: usize,
    time_index_entries: usize,
}

/// `GET /topics/{name}/partitions/{partition}/segments`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, after) = (asked.limit()?, asked.number("after", 0..=i64::MAX)?);
    let (name, index) = (asked.part("name"), asked.part("partition"));
    let image = api.controller.image();
    let topic = find(&image, name)?;
    let index: i32 = index.parse().map_err(|_| {
        let what = format!("topic {name} has no partition {index:?}");
        Refusal::new(StatusCode::NOT_FOUND, what, "it is no number", "give 0, 1 and so on.")
    })?;
    let log = replica(api, topic, index)?;
    let log = log.log();
    // One more in front, which `after` names, and one behind, which says whether there is more.
    let from = after.unwrap_or(-1);
    let figures = log.segment_figures(Offset(from), limit + 2).map_err(|error| {
        let what = format!("the segments of {name}-{index} cannot be read");
        let hint = "look at the disk and into the broker's log.";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what, error.to_string(), hint)
    })?;
    let mut page: Vec<_> = figures.iter().filter(|one| one.base_offset.0 > from).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    json(&Segments {
        broker_id: api.local_id,
        topic: name,
        partition: index,
        total: log.segment_count(),
        segments: page.iter().map(|figures| segment(figures)).collect(),
        next: page.last().filter(|_| has_more).map(|last| last.base_offset.0),
    })
}

fn segment(figures: &SegmentFigures) -> Segment {
    Segment {
        base_offset: figures.base_offset.0,
        end_offset: figures.end_offset.0,
        bytes: figures.bytes,
        active: figures.is_active,
        newest_timestamp_ms: Some(figures.newest_timestamp_ms).filter(|ms| *ms >= 0),
        modified_ms: figures.modified_ms,
        offset_index_entries: figures.offset_index_entries,
        time_index_entries: figures.time_index_entries,
    }
}
