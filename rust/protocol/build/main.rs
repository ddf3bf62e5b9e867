//! Turns `schema/*.schema` into Rust: structs, codecs, version ranges and the table of APIs.
//!
//! One file per API key is the single truth of the wire; `schema/README.md` describes its language.

#![allow(clippy::print_stdout)]

mod emit;
mod emit_codec;
mod schema;

use std::{env, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=schema");
    println!("cargo::rerun-if-changed=build");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    let mut paths: Vec<_> = fs::read_dir("schema")
        .expect("the schema folder is part of the crate")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "schema"))
        .collect();
    paths.sort();
    let mut modules = String::new();
    let mut apis = Vec::new();
    let mut records = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(path).expect("a readable schema");
        let file =
            schema::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        modules.push_str(&emit::module(&name, &file));
        let of_file = file.roots.iter().filter(|root| root.role == schema::Role::Record);
        records.extend(of_file.map(|root| (name.clone(), root.structs[0].name.clone())));
        apis.extend(file.api);
    }
    apis.sort_by_key(|api| api.key);
    modules.push_str(&emit::api_table(&apis));
    modules.push_str(&emit::for_each_record(&records));
    fs::write(Path::new(&out).join("messages.rs"), modules).expect("OUT_DIR is writable");
}
