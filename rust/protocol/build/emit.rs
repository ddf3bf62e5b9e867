//! Schema values -> Rust items: structs, their defaults, the traits, the table of APIs.

use crate::emit_codec;
use crate::schema::{Api, Field, File, Kind, Role, Root, Struct, Versions};
use std::fmt::Write as _;

/// The module of one schema file.
pub fn module(name: &str, file: &File) -> String {
    let mut out = String::new();
    for line in &file.doc {
        let _ = writeln!(out, "/// {line}");
    }
    let _ = writeln!(out, "#[allow(clippy::all)]\npub mod {name} {{\nuse super::support::*;\n");
    for root in &file.roots {
        for (index, item) in root.structs.iter().enumerate() {
            declare(&mut out, item);
            default(&mut out, item);
            emit_codec::wire(&mut out, root, item);
            emit_codec::sample(&mut out, root, item);
            if index == 0 {
                message(&mut out, root, item, file.api.as_ref());
            }
        }
    }
    out.push_str("}\n\n");
    out
}

fn message(out: &mut String, root: &Root, item: &Struct, api: Option<&Api>) {
    let Versions { from, to } = root.versions;
    let name = &item.name;
    let _ = writeln!(
        out,
        "impl Versioned for {name} {{ const VERSIONS: VersionRange = VersionRange {{ min: {from}, max: {to} }};\n\
         const FLEXIBLE_FROM: i16 = {}; }}",
        root.flexible.from
    );
    if let (Some(api), Role::Request) = (api, &root.role) {
        let _ = writeln!(
            out,
            "impl Request for {name} {{ const API_KEY: ApiKey = ApiKey::{}; type Response = {}Response; }}",
            api.name, api.name
        );
    }
}

/// The Rust type of a field.
pub fn rust_type(field: &Field) -> String {
    let plain = plain_type(&field.kind);
    if is_optional(field) { format!("Option<{plain}>") } else { plain }
}

pub fn is_optional(field: &Field) -> bool {
    !field.nullable.is_none()
}

fn plain_type(kind: &Kind) -> String {
    match kind {
        Kind::Primitive("uuid") => "Uuid".to_owned(),
        Kind::Primitive("varint") => "i32".to_owned(),
        Kind::Primitive(name) => (*name).to_owned(),
        Kind::String => "String".to_owned(),
        Kind::Bytes => "Bytes".to_owned(),
        Kind::Records => "Records".to_owned(),
        Kind::Struct(name) => name.clone(),
        Kind::Array(element) => format!("Vec<{}>", plain_type(element)),
    }
}

/// A field's name as Rust spells it.
pub fn ident(field: &Field) -> String {
    if field.name == "type" || field.name == "match" {
        format!("r#{}", field.name)
    } else {
        field.name.clone()
    }
}

fn versions_text(versions: Versions) -> String {
    match versions {
        Versions { from, to: i16::MAX } => format!("{from}+"),
        Versions { from, to } if from == to => format!("{from}"),
        Versions { from, to } => format!("{from}-{to}"),
    }
}

fn declare(out: &mut String, item: &Struct) {
    let _ = writeln!(
        out,
        "/// `{}` of the Kafka protocol.\n#[derive(Clone, Debug, PartialEq)]\npub struct {} {{",
        item.name, item.name
    );
    for field in &item.fields {
        let _ = write!(out, "/// Versions {}", versions_text(field.versions));
        if is_optional(field) {
            let _ = write!(out, ", nullable {}", versions_text(field.nullable));
        }
        if let Some(tag) = field.tag {
            let _ = write!(out, ", tag {tag}");
        }
        let _ = writeln!(out, ".\npub {}: {},", ident(field), rust_type(field));
    }
    out.push_str("}\n");
}

/// The value a field has when it is not on the wire.
pub fn default_value(field: &Field) -> String {
    let optional = is_optional(field);
    let value = match (&field.kind, field.default.as_deref()) {
        (_, Some("null")) => return "None".to_owned(),
        (Kind::Records, _) if optional => return "None".to_owned(),
        (Kind::Primitive("bool"), value) => value.unwrap_or("false").to_owned(),
        (Kind::Primitive("uuid"), _) => "Uuid::ZERO".to_owned(),
        (Kind::Primitive("f64"), _) => "0.0".to_owned(),
        (Kind::Primitive(_), value) => value.unwrap_or("0").to_owned(),
        (Kind::String, Some(value)) => format!("{value:?}.to_owned()"),
        (Kind::String, None) => "String::new()".to_owned(),
        (Kind::Bytes, _) => "Bytes::new()".to_owned(),
        (Kind::Array(_), _) => "Vec::new()".to_owned(),
        (Kind::Struct(name), _) => format!("{name}::default()"),
        (Kind::Records, _) => "Records::default()".to_owned(),
    };
    if optional { format!("Some({value})") } else { value }
}

fn default(out: &mut String, item: &Struct) {
    let _ = writeln!(out, "impl Default for {} {{ fn default() -> Self {{ Self {{", item.name);
    for field in &item.fields {
        let _ = writeln!(out, "{}: {},", ident(field), default_value(field));
    }
    out.push_str("} } }\n");
}

/// `ApiKey` and everything that is asked of it.
pub fn api_table(apis: &[Api]) -> String {
    let mut out = String::from(
        "/// Kafka's API keys that this codec knows.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(i16)]\n\
         pub enum ApiKey {\n",
    );
    for api in apis {
        let _ = writeln!(out, "/// `{}`, key {}.\n{} = {},", api.name, api.key, api.name, api.key);
    }
    out.push_str(
        "}\n\nimpl ApiKey {\n/// Every key, ascending.\npub const ALL: &'static [Self] = &[\n",
    );
    for api in apis {
        let _ = writeln!(out, "Self::{},", api.name);
    }
    out.push_str("];\n\n");
    table_fn(&mut out, apis, "Kafka's name of the API.", "name", "&'static str", |api| {
        format!("{:?}", api.name)
    });
    table_fn(
        &mut out,
        apis,
        "The versions that are decoded and served.",
        "versions",
        "VersionRange",
        |api| range(api.versions),
    );
    table_fn(
        &mut out,
        apis,
        "The versions that ApiVersions lists.",
        "advertised",
        "VersionRange",
        |api| range(api.advertised),
    );
    table_fn(
        &mut out,
        apis,
        "The first flexible version; `i16::MAX` where there is none.",
        "flexible_from",
        "i16",
        |api| api.flexible.from.to_string(),
    );
    out.push_str("/// The key with this number, if this codec knows it.\npub const fn from_i16(key: i16) -> Option<Self> {\nmatch key {\n");
    for api in apis {
        let _ = writeln!(out, "{} => Some(Self::{}),", api.key, api.name);
    }
    out.push_str("_ => None,\n}\n}\n}\n");
    for_each_api(&mut out, apis);
    out
}

fn range(versions: Versions) -> String {
    format!("VersionRange {{ min: {}, max: {} }}", versions.from, versions.to)
}

fn table_fn(
    out: &mut String,
    apis: &[Api],
    doc: &str,
    name: &str,
    returns: &str,
    value: impl Fn(&Api) -> String,
) {
    let _ = writeln!(out, "/// {doc}\npub const fn {name}(self) -> {returns} {{\nmatch self {{");
    for api in apis {
        let _ = writeln!(out, "Self::{} => {},", api.name, value(api));
    }
    out.push_str("}\n}\n\n");
}

/// A macro that runs another macro over (key, module, request, response) of every API: tests use
/// it.
fn for_each_api(out: &mut String, apis: &[Api]) {
    out.push_str(
        "/// Runs a macro with (API key, module, request, response) of every API; for tests and fuzzing.\n\
         #[doc(hidden)]\n#[macro_export]\nmacro_rules! for_each_api { ($run:ident) => {\n",
    );
    for api in apis {
        let module = snake(&api.name);
        let _ = writeln!(out, "$run!({0}, {module}, {0}Request, {0}Response);", api.name);
    }
    out.push_str("} }\n");
}

/// The same over (module, struct) of every record.
pub fn for_each_record(records: &[(String, String)]) -> String {
    let mut out = String::from("#[cfg(test)]\nmacro_rules! for_each_record { ($run:ident) => {\n");
    for (module, name) in records {
        let _ = writeln!(out, "$run!({module}, {name});");
    }
    out.push_str("} }\n");
    out
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(character.to_lowercase());
    }
    out
}
