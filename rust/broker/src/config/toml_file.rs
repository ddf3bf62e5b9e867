//! `kafkalite.toml`: the same keys, quoted or as nested tables.
//!
//! ```toml
//! "num.partitions" = 3
//! [log]
//! segment.bytes = 1048576        # log.segment.bytes
//! dirs = ["data"]                # a list
//! ```

/// The entries of `text`: key with dots and value as text.
///
/// # Errors
/// The line, from 1, and what is wrong there.
pub fn entries(text: &str) -> Result<Vec<(String, String)>, (usize, String)> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        (line, error.message().to_owned())
    })?;
    let mut entries = Vec::new();
    flatten("", table, &mut entries).map_err(|why| (1, why))?;
    Ok(entries)
}

fn flatten(
    prefix: &str,
    table: toml::Table,
    entries: &mut Vec<(String, String)>,
) -> Result<(), String> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        if let toml::Value::Table(inner) = value {
            flatten(&key, inner, entries)?;
        } else {
            let text = text(value).ok_or_else(|| format!("{key} is a date or a list of tables"))?;
            entries.push((key, text));
        }
    }
    Ok(())
}

fn text(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(boolean) => Some(boolean.to_string()),
        toml::Value::Array(parts) => {
            let parts: Option<Vec<String>> = parts.into_iter().map(text).collect();
            Some(parts?.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}
