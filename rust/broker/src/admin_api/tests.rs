//! The list of paths and the file that describes them say the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;

/// A path and a method, and the parameters of its query.
type Described = BTreeMap<(String, String), BTreeSet<String>>;

fn file() -> Value {
    serde_json::from_str(OPENAPI).expect("it is JSON")
}

/// What the file says, the parameters of paths left out.
fn described() -> Described {
    let file = file();
    let paths = file["paths"].as_object().expect("it has paths");
    let mut all = Described::new();
    for (path, methods) in paths {
        for (method, described) in methods.as_object().expect("it has methods") {
            let parameters = described["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let of_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
            let names = of_query.filter_map(|parameter| parameter["name"].as_str());
            let names = names.map(str::to_owned).collect();
            all.insert((path.clone(), method.clone()), names);
        }
    }
    all
}

fn row(path: &str, method: &str, query: &[&str]) -> ((String, String), BTreeSet<String>) {
    let query = query.iter().map(|&name| name.to_owned()).collect();
    ((path.to_owned(), method.to_lowercase()), query)
}

fn commands<T>(
    all: &'static [Command<T>],
) -> impl Iterator<Item = ((String, String), BTreeSet<String>)> {
    all.iter().map(|one| row(one.path, &format!("{:?}", one.method), one.query))
}

#[test]
fn the_file_describes_every_path_and_method_with_its_parameters() {
    let read = ROUTES.iter().map(|route| row(route.path, "get", route.query));
    let served = read.chain([row(live::PATH, "get", live::QUERY)]);
    let served = served
        .chain(TURNS_OF_TESTS.into_iter().flat_map(|(all, _)| commands(all)))
        .chain(commands(changes::COMMANDS));
    assert_eq!(described(), served.collect());
}

#[test]
fn the_file_says_of_every_command_what_it_is_called_and_whether_it_has_a_body() {
    let file = file();
    for (path, method) in described().into_keys() {
        let described = &file["paths"][&path][&method];
        assert!(described["operationId"].is_string(), "{method} {path}");
        let has_body = ["post", "patch"].contains(&method.as_str());
        assert_eq!(described["requestBody"].is_object(), has_body, "{method} {path}");
    }
}

#[test]
fn every_part_of_a_path_is_described() {
    let file = file();
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
