//! Keys of topics and brokers are set, and given back their defaults.

use std::collections::BTreeMap;

use kafkalite_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use serde::{Deserialize, Serialize};

use super::request::{ask, check};
use super::{bad, read};
use crate::admin_api::commands::Change;
use crate::admin_api::topics::find;
use crate::admin_api::{Answer, failed, json};
use crate::metadata::ConfigResourceType;

/// `AlterConfigOp.OpType` of Kafka.
const SET: i8 = 0;
const DELETE: i8 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Altered {
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Keys that lose the value they were given.
    #[serde(default)]
    unset: Vec<String>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfBrokers {
    /// Whose keys: those of one broker, or of all in the cluster.
    broker: Whose,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    unset: Vec<String>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Whose {
    One(i32),
    All(All),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum All {
    All,
}

#[derive(Serialize)]
struct Done {
    set: BTreeMap<String, String>,
    unset: Vec<String>,
    dry_run: bool,
}

/// `PATCH /topics/{name}/config`
pub(super) async fn of_topic(change: Change) -> Answer {
    let Change { api, asked, body, .. } = &change;
    let name = asked.part("name");
    let altered = read(body)?;
    find(&api.controller.image(), name)?;
    let what = format!("the keys of topic {name:?} are not changed");
    alter(&change, ConfigResourceType::Topic, name.to_owned(), altered, &what).await
}

/// `PATCH /config`
pub(super) async fn of_brokers(change: Change) -> Answer {
    let OfBrokers { broker, set, unset, dry_run } = read(&change.body)?;
    let name = match broker {
        Whose::One(id) => id.to_string(),
        Whose::All(All::All) => String::new(),
    };
    let altered = Altered { set, unset, dry_run };
    alter(&change, ConfigResourceType::Broker, name, altered, "the keys are not changed").await
}

async fn alter(
    change: &Change,
    of: ConfigResourceType,
    resource_name: String,
    altered: Altered,
    what: &str,
) -> Answer {
    let Altered { set, unset, dry_run } = altered;
    if set.is_empty() && unset.is_empty() {
        return Err(bad(what, "the body names no key", "name keys in set or in unset."));
    }
    let one = |name: &String, config_operation, value: Option<&String>| AlterableConfig {
        name: name.clone(),
        config_operation,
        value: value.cloned(),
    };
    let sets = set.iter().map(|(name, value)| one(name, SET, Some(value)));
    let unsets = unset.iter().map(|name| one(name, DELETE, None));
    let configs = sets.chain(unsets).collect();
    let resource = AlterConfigsResource { resource_type: of.code(), resource_name, configs };
    let resources = vec![resource];
    let request = IncrementalAlterConfigsRequest { resources, validate_only: dry_run };
    let answer = ask(change, 1, &request).await?.responses.pop();
    let answer = answer.ok_or_else(|| failed("its answer names no resource"))?;
    check(what, answer.error_code, answer.error_message)?;
    json(&Done { set, unset, dry_run })
}
