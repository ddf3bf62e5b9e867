//! Records of `__consumer_offsets` in names and numbers, for `log dump`.

use kafkalite_broker::coordinator::{
    GroupRecord, assigned_partitions, parse_record, subscribed_topics,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What a record of `__consumer_offsets` says. Its `kind` is `offset` or `group`; `foreign` for
/// one of another protocol, `unreadable` with the `problem` for one that does not parse.
#[pyfunction]
fn log_group_record<'py>(
    py: Python<'py>,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    match parse_record(key.unwrap_or_default(), value) {
        Ok(Some(GroupRecord::Offset(key, value))) => {
            told.set_item("kind", "offset")?;
            told.set_item("group", &*key.group)?;
            told.set_item("topic", &*key.topic)?;
            told.set_item("partition", key.partition)?;
            told.set_item("removed", value.is_none())?;
            if let Some(value) = value {
                told.set_item("offset", value.offset)?;
                told.set_item("leader_epoch", known(i64::from(value.leader_epoch)))?;
                told.set_item("metadata", value.metadata)?;
                told.set_item("commit_timestamp_ms", value.commit_timestamp)?;
                told.set_item("expire_timestamp_ms", known(value.expire_timestamp))?;
            }
        }
        Ok(Some(GroupRecord::Group(group, value))) => {
            told.set_item("kind", "group")?;
            told.set_item("group", group)?;
            told.set_item("removed", value.is_none())?;
            if let Some(value) = value {
                told.set_item("protocol_type", value.protocol_type)?;
                told.set_item("generation", value.generation)?;
                told.set_item("protocol", value.protocol)?;
                told.set_item("leader", value.leader)?;
                told.set_item("state_timestamp_ms", known(value.current_state_timestamp))?;
                let members: PyResult<Vec<_>> = value
                    .members
                    .into_iter()
                    .map(|member| {
                        let told = PyDict::new(py);
                        told.set_item("member_id", member.member_id)?;
                        told.set_item("group_instance_id", member.group_instance_id)?;
                        told.set_item("client_id", member.client_id)?;
                        told.set_item("host", member.client_host)?;
                        told.set_item("rebalance_timeout_ms", member.rebalance_timeout)?;
                        told.set_item("session_timeout_ms", member.session_timeout)?;
                        told.set_item("topics", subscribed_topics(&member.subscription))?;
                        told.set_item("assignment", assigned_partitions(&member.assignment))?;
                        Ok(told)
                    })
                    .collect();
                told.set_item("members", members?)?;
            }
        }
        Ok(None) => told.set_item("kind", "foreign")?,
        Err(error) => {
            told.set_item("kind", "unreadable")?;
            told.set_item("problem", error.to_string())?;
        }
    }
    Ok(told)
}

/// Kafka writes -1 for what it does not know.
fn known(number: i64) -> Option<i64> {
    (number >= 0).then_some(number)
}

/// Adds it to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(log_group_record, module)?)
}
