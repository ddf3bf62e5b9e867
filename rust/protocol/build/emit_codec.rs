//! Schema values -> `Wire` implementations, and random samples for tests.

use crate::emit::{default_value, ident, is_optional};
use crate::schema::{Field, Kind, Role, Root, Struct, Versions};
use std::fmt::Write as _;

/// A condition on `v`, or `None` where it always holds within the message's versions.
fn guard(versions: Versions, of: Versions) -> Option<String> {
    if versions.covers(of) {
        return None;
    }
    Some(match versions {
        Versions { from, to: i16::MAX } => format!("v >= {from}"),
        Versions { from, to } if from <= of.from => format!("v <= {to}"),
        Versions { from, to } if to >= of.to => format!("v >= {from}"),
        Versions { from, to } => format!("({from}..={to}).contains(&v)"),
    })
}

fn condition(versions: Versions, of: Versions) -> String {
    if !versions.meets(of) {
        return "false".to_owned();
    }
    guard(versions, of).unwrap_or_else(|| "true".to_owned())
}

/// `impl Wire` of one struct, and `impl Listing` of one whose last array may be streamed.
pub fn wire(out: &mut String, root: &Root, item: &Struct) {
    let flexible = condition(root.flexible, root.versions);
    let listed = listed(root, item);
    let encode = match listed {
        Some(field) => format!(
            "let mut elements = self.{0}.iter();\n\
             self.encode_listing(w, v, self.{0}.len(), |w| {{\n\
             if let Some(element) = elements.next() {{ element.encode(w, v); }}\n}});\n",
            ident(field)
        ),
        None => format!("let flexible = {flexible};\n{}", encode_fields(root, item, None)),
    };
    let _ = writeln!(
        out,
        "#[allow(unused_variables)]\nimpl Wire for {} {{\n\
         fn encode(&self, w: &mut Writer, v: i16) {{\n{encode}}}\n\
         fn decode(r: &mut Reader, v: i16) -> Result<Self, DecodeError> {{\n\
         let flexible = {flexible};\n#[allow(unused_mut)]\nlet mut value = Self::default();",
        item.name
    );
    let present = |field: &&Field| field.versions.meets(root.versions);
    for field in item.fields.iter().filter(|field| field.tag.is_none()).filter(present) {
        let body = format!("value.{} = {};", ident(field), decode_field(field, root.versions));
        match guard(field.versions, root.versions) {
            Some(condition) => writeln!(out, "if {condition} {{ {body} }}"),
            None => writeln!(out, "{body}"),
        }
        .expect("writing to a string");
    }
    decode_tags(out, &tagged(root, item), root);
    out.push_str("Ok(value)\n}\n}\n");
    if let Some(Field { kind: Kind::Array(element), .. }) = listed
        && let Kind::Struct(element) = element.as_ref()
    {
        let _ = writeln!(
            out,
            "#[allow(unused_variables)]\nimpl Listing for {} {{\n\
             type Element = {element};\nfn encode_listing(&self, w: &mut Writer, v: i16, count: usize, \
             mut element: impl FnMut(&mut Writer)) {{\nlet flexible = {flexible};\n{}}}\n}}",
            item.name,
            encode_fields(root, item, listed)
        );
    }
}

/// The array of a response's struct that [`Listing`] streams: the last one of structs.
fn listed<'a>(root: &Root, item: &'a Struct) -> Option<&'a Field> {
    let of_structs = |field: &&Field| match &field.kind {
        Kind::Array(element) => matches!(element.as_ref(), Kind::Struct(_)),
        _ => false,
    };
    let plain = |field: &&Field| field.tag.is_none() && !is_optional(field);
    let present = |field: &&Field| field.versions.meets(root.versions);
    let mut fields = item.fields.iter().filter(of_structs).filter(plain).filter(present);
    fields.next_back().filter(|_| root.role == Role::Response)
}

fn tagged<'a>(root: &Root, item: &'a Struct) -> Vec<&'a Field> {
    let present = |field: &&Field| field.versions.meets(root.versions);
    let mut tagged: Vec<_> =
        item.fields.iter().filter(|field| field.tag.is_some()).filter(present).collect();
    tagged.sort_by_key(|field| field.tag);
    tagged
}

/// Statements that write every field; the elements of `listed` are written by `element`.
fn encode_fields(root: &Root, item: &Struct, listed: Option<&Field>) -> String {
    let mut out = String::new();
    let present = |field: &&Field| field.versions.meets(root.versions);
    for field in item.fields.iter().filter(|field| field.tag.is_none()).filter(present) {
        let body = match listed {
            Some(listed) if std::ptr::eq(listed, field) => {
                "w.array_len(count, flexible); for _ in 0..count { element(w); }".to_owned()
            }
            _ => encode_field(field, root.versions),
        };
        match guard(field.versions, root.versions) {
            Some(condition) => writeln!(out, "if {condition} {{ {body} }}"),
            None => writeln!(out, "{body}"),
        }
        .expect("writing to a string");
    }
    encode_tags(&mut out, &tagged(root, item), root);
    out
}

fn encode_tags(out: &mut String, tagged: &[&Field], root: &Root) {
    if !root.flexible.meets(root.versions) {
        return;
    }
    out.push_str("if flexible {\n");
    if tagged.is_empty() {
        out.push_str("w.unsigned_varint(0);\n}\n");
        return;
    }
    out.push_str("let mut tags = 0;\n");
    let wanted = |field: &Field| {
        let changed = match &field.kind {
            Kind::Array(_) if !is_optional(field) => format!("!self.{}.is_empty()", ident(field)),
            _ => format!("self.{} != {}", ident(field), default_value(field)),
        };
        match guard(field.versions, root.versions) {
            Some(condition) => format!("{condition} && {changed}"),
            None => changed,
        }
    };
    for field in tagged {
        let _ = writeln!(out, "if {} {{ tags += 1; }}", wanted(field));
    }
    out.push_str("w.unsigned_varint(tags);\n");
    for field in tagged {
        let _ = writeln!(
            out,
            "if {} {{ w.tagged({}, |w| {{ {} }}); }}",
            wanted(field),
            field.tag.expect("a tagged field"),
            encode_field(field, root.versions)
        );
    }
    out.push_str("}\n");
}

fn decode_tags(out: &mut String, tagged: &[&Field], root: &Root) {
    if !root.flexible.meets(root.versions) {
        return;
    }
    if tagged.is_empty() {
        out.push_str("if flexible { r.skip_tags()?; }\n");
        return;
    }
    out.push_str("if flexible {\nr.tags(|tag, r| {\nmatch tag {\n");
    for field in tagged {
        let guard = guard(field.versions, root.versions)
            .map_or_else(String::new, |condition| format!(" if {condition}"));
        let _ = writeln!(
            out,
            "{}{guard} => value.{} = {},",
            field.tag.expect("a tagged field"),
            ident(field),
            decode_field(field, root.versions)
        );
    }
    out.push_str("_ => {}\n}\nOk(())\n})?;\n}\n");
}

fn encode_field(field: &Field, of: Versions) -> String {
    let place = format!("self.{}", ident(field));
    if is_optional(field) {
        let nullable = condition(field.nullable, of);
        let some = match &field.kind {
            Kind::Struct(_) => format!("w.i8(1); {}", encode_value(&field.kind, "value")),
            kind => encode_value(kind, "value"),
        };
        let null = match &field.kind {
            Kind::String => "w.null_string(flexible)",
            Kind::Bytes | Kind::Records => "w.null_bytes(flexible)",
            Kind::Array(_) => "w.null_array(flexible)",
            _ => "w.i8(-1)",
        };
        let empty = match &field.kind {
            Kind::String => "w.string(\"\", flexible)",
            Kind::Bytes | Kind::Records => "w.bytes(&[], flexible)",
            Kind::Array(_) => "w.array_len(0, flexible)",
            _ => "w.i8(-1)",
        };
        let none = match nullable.as_str() {
            "true" => null.to_owned(),
            "false" => empty.to_owned(),
            condition => format!("if {condition} {{ {null} }} else {{ {empty} }}"),
        };
        format!("match &{place} {{ Some(value) => {{ {some} }} None => {{ {none} }} }}")
    } else if matches!(field.kind, Kind::Primitive(_)) {
        encode_value(&field.kind, &place)
    } else {
        encode_value(&field.kind, &format!("&{place}"))
    }
}

/// Statements that write the value at `place`: a value for primitives, a reference for the others.
fn encode_value(kind: &Kind, place: &str) -> String {
    match kind {
        Kind::Primitive(name) => format!("w.{name}({place});"),
        Kind::String => format!("w.string({place}, flexible);"),
        Kind::Bytes => format!("w.bytes({place}, flexible);"),
        Kind::Records => format!("w.records({place}, flexible);"),
        Kind::Struct(_) => format!("({place}).encode(w, v);"),
        Kind::Array(element) => {
            let each = match element.as_ref() {
                Kind::Primitive(_) => encode_value(element, "*element"),
                _ => encode_value(element, "element"),
            };
            format!("w.array_len(({place}).len(), flexible); for element in {place} {{ {each} }}")
        }
    }
}

fn decode_field(field: &Field, of: Versions) -> String {
    if !is_optional(field) {
        return decode_value(&field.kind);
    }
    let nullable = condition(field.nullable, of);
    match &field.kind {
        Kind::String => format!("r.nullable_string(flexible, {nullable})?"),
        Kind::Bytes => format!("r.nullable_bytes(flexible, {nullable})?"),
        Kind::Records => {
            format!("r.nullable_bytes(flexible, {nullable})?.map(Records::Bytes)")
        }
        Kind::Array(element) => format!(
            "match r.nullable_array_len(flexible, {nullable})? {{ None => None, Some(count) => Some({}) }}",
            decode_elements(element)
        ),
        Kind::Struct(name) => {
            format!("if r.i8()? < 0 {{ None }} else {{ Some({name}::decode(r, v)?) }}")
        }
        Kind::Primitive(_) => unreachable!("numbers are never null"),
    }
}

fn decode_value(kind: &Kind) -> String {
    match kind {
        Kind::Primitive(name) => format!("r.{name}()?"),
        Kind::String => "r.string(flexible)?".to_owned(),
        Kind::Bytes => "r.bytes(flexible)?".to_owned(),
        Kind::Records => "Records::Bytes(r.bytes(flexible)?)".to_owned(),
        Kind::Struct(name) => format!("{name}::decode(r, v)?"),
        Kind::Array(element) => {
            format!("{{ let count = r.array_len(flexible)?; {} }}", decode_elements(element))
        }
    }
}

fn decode_elements(element: &Kind) -> String {
    format!("r.elements(count, |r| Ok({}))?", decode_value(element))
}

/// A random value that survives a round trip in version `v`, for tests.
pub fn sample(out: &mut String, root: &Root, item: &Struct) {
    let _ = writeln!(
        out,
        "#[cfg(test)]\n#[allow(unused_variables)]\nimpl Sample for {} {{\n\
         fn sample(g: &mut Generator, v: i16) -> Self {{\n#[allow(unused_mut)]\nlet mut value = Self::default();",
        item.name
    );
    for field in item.fields.iter().filter(|field| field.versions.meets(root.versions)) {
        let mut body = sample_value(&field.kind);
        if is_optional(field) {
            let nullable = condition(field.nullable, root.versions);
            body = format!("if {nullable} && g.null() {{ None }} else {{ Some({body}) }}");
        }
        let body = format!("value.{} = {body};", ident(field));
        match guard(field.versions, root.versions) {
            Some(condition) => writeln!(out, "if {condition} {{ {body} }}"),
            None => writeln!(out, "{body}"),
        }
        .expect("writing to a string");
    }
    out.push_str("value\n}\n}\n");
}

fn sample_value(kind: &Kind) -> String {
    match kind {
        Kind::Primitive(name) => format!("g.{name}()"),
        Kind::String => "g.string()".to_owned(),
        Kind::Bytes => "g.bytes()".to_owned(),
        Kind::Records => "Records::Bytes(g.bytes())".to_owned(),
        Kind::Struct(name) => format!("{name}::sample(g, v)"),
        Kind::Array(element) => {
            format!("{{ let n = g.len(); (0..n).map(|_| {}).collect() }}", sample_value(element))
        }
    }
}
