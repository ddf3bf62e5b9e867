//! The list of paths and the file that describes them say the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::faults::{COMMANDS, Method};
use super::*;

/// The parameters of each path in the file, those of the path itself left out.
fn described() -> BTreeMap<String, BTreeSet<String>> {
    let file: Value = serde_json::from_str(OPENAPI).expect("it is JSON");
    let paths = file["paths"].as_object().expect("it has paths");
    let parameters = |path: &Value| -> BTreeSet<String> {
        let all = path["get"]["parameters"].as_array().expect("each says which it takes");
        let of_query = all.iter().filter(|parameter| parameter["in"] == "query");
        let name = |parameter: &Value| parameter["name"].as_str().map(str::to_owned);
        of_query.filter_map(name).collect()
    };
    let read = paths.iter().filter(|(_, path)| path["get"].is_object());
    read.map(|(path, described)| (path.clone(), parameters(described))).collect()
}

#[test]
fn the_file_describes_every_path_with_its_parameters() {
    let served = ROUTES.iter().map(|route| {
        let query = route.query.iter().map(|&name| name.to_owned());
        (route.path.to_owned(), query.collect::<BTreeSet<_>>())
    });
    let commands = COMMANDS.iter().filter(|command| command.method == Method::Get);
    let commands = commands.map(|command| (command.path.to_owned(), BTreeSet::new()));
    let stream = (live::PATH.to_owned(), BTreeSet::new());
    assert_eq!(described(), served.chain(commands).chain([stream]).collect());
}

#[test]
fn the_file_describes_every_command_with_its_method() {
    let file: Value = serde_json::from_str(OPENAPI).expect("it is JSON");
    for command in COMMANDS {
        let method = format!("{:?}", command.method).to_lowercase();
        let described = &file["paths"][command.path][&method];
        assert!(described["operationId"].is_string(), "{method} {}", command.path);
        assert_eq!(described["requestBody"].is_object(), command.method == Method::Post);
    }
}

#[test]
fn every_part_of_a_path_is_described() {
    let file: Value = serde_json::from_str(OPENAPI).expect("it is JSON");
    for route in ROUTES {
        let parameters = file["paths"][route.path]["get"]["parameters"].as_array();
        let parameters = parameters.expect("described").iter();
        let of_path = parameters.filter(|parameter| parameter["in"] == "path");
        let told: Vec<_> = of_path.filter_map(|parameter| parameter["name"].as_str()).collect();
        let parts = route.path.split('/').filter_map(|part| part.strip_prefix('{'));
        let parts: Vec<_> = parts.filter_map(|part| part.strip_suffix('}')).collect();
        assert_eq!(told, parts, "{}", route.path);
    }
}
