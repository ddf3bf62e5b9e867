//! Reading a value by its type, and Kafka's words for what is wrong with it.
//!
//! Source: `ConfigDef.parseType` and the validators of `ConfigDef`; the sentences are on the wire
//! (InvalidConfig), where tools and their users know them.

use super::key::{ConfigKey, Kind, Valid};
use std::collections::HashSet;
use std::fmt;

/// A value of its key's type.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a [`Kind::Boolean`].
    Boolean(bool),
    /// Of a [`Kind::Int`], [`Kind::Long`] or [`Kind::Short`].
    Number(i64),
    /// Of a [`Kind::Double`].
    Double(f64),
    /// Of a [`Kind::String`], [`Kind::Class`] or [`Kind::Password`].
    Text(String),
    /// Of a [`Kind::List`].
    List(Vec<String>),
}

/// As Java writes it: a list's parts without blanks between them, a fraction with a point.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Double(value) => f.write_str(&java_double(*value)),
            Self::Text(value) => f.write_str(value),
            Self::List(parts) => f.write_str(&parts.join(",")),
        }
    }
}

/// `0.5` and `1.0`, but `1.0E-4` and `1.5E7`: Java's `Double.toString`.
fn java_double(value: f64) -> String {
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) || !value.is_finite() {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    let (digits, exponent) = text.split_once('E').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// Reads `text` as a value of `key` and checks that it is valid.
///
/// # Errors
/// Kafka's sentence: `Invalid value V for configuration K: ...`.
pub fn parse(key: &ConfigKey, text: &str) -> Result<Value, String> {
    let is_secret = key.kind == Kind::Password;
    let invalid = |shown: &str, why: String| {
        let shown = if is_secret { "[hidden]" } else { shown };
        format!("Invalid value {shown} for configuration {}: {why}", key.name)
    };
    let mut value = of_type(key.kind, text.trim()).map_err(|why| invalid(text, why))?;
    match (key.valid, &mut value) {
        (Valid::SomeOf(texts), Value::List(parts)) => {
            // One after the other, as in Kafka: the first bad text is the one that is named.
            for part in &*parts {
                not_empty(key, part)?;
                one_of(part, texts).map_err(|why| invalid(part, why))?;
            }
            each_once(parts);
        }
        (Valid::NoneEmpty, Value::List(parts)) => {
            parts.iter().try_for_each(|part| not_empty(key, part))?;
            each_once(parts);
        }
        (Valid::ThrottledReplicas, Value::List(parts)) => {
            let shown = format!("[{}]", parts.join(", "));
            throttled_replicas(key.name, parts).map_err(|why| invalid(&shown, why))?;
        }
        (_, value) => check(key, value).map_err(|why| invalid(&value.to_string(), why))?,
    }
    Ok(value)
}

fn not_empty(key: &ConfigKey, part: &str) -> Result<(), String> {
    match part.is_empty() {
        true => Err(format!("Configuration '{}' values must not be empty.", key.name)),
        false => Ok(()),
    }
}

fn each_once(parts: &mut Vec<String>) {
    let mut seen = HashSet::new();
    parts.retain(|part| seen.insert(part.clone()));
}

fn of_type(kind: Kind, text: &str) -> Result<Value, String> {
    let number = |low: i64, high: i64| match text.parse::<i64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(Value::Number(number)),
        _ => Err(format!("Not a number of type {}", kind.name())),
    };
    match kind {
        Kind::Boolean if text.eq_ignore_ascii_case("true") => Ok(Value::Boolean(true)),
        Kind::Boolean if text.eq_ignore_ascii_case("false") => Ok(Value::Boolean(false)),
        Kind::Boolean => Err("Expected value to be either true or false".to_owned()),
        Kind::Int => number(i32::MIN.into(), i32::MAX.into()),
        Kind::Short => number(i16::MIN.into(), i16::MAX.into()),
        Kind::Long => number(i64::MIN, i64::MAX),
        Kind::Double => match text.parse() {
            Ok(double) => Ok(Value::Double(double)),
            Err(_) => Err(format!("Not a number of type {}", kind.name())),
        },
        Kind::String | Kind::Class | Kind::Password => Ok(Value::Text(text.to_owned())),
        Kind::List => Ok(Value::List(list(text))),
    }
}

/// The parts of a list: separated by commas, blanks around them dropped. An empty text has none.
#[must_use]
pub fn list(text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    text.split(',').map(|part| part.trim().to_owned()).collect()
}

fn check(key: &ConfigKey, value: &Value) -> Result<(), String> {
    match (key.valid, value) {
        (Valid::AtLeast(low), Value::Number(number)) => at_least(*number, low),
        (Valid::Between(low, high), Value::Number(number)) => {
            at_least(*number, low)?;
            if *number > high {
                return Err(format!("Value must be no more than {high}"));
            }
            Ok(())
        }
        (Valid::MinusOneOr(low, high), Value::Number(number)) => {
            if *number == -1 || (low..=high).contains(number) {
                return Ok(());
            }
            Err(format!("Value must be between {low} and {high} or equal to -1"))
        }
        (Valid::Fraction, Value::Double(double)) => {
            if *double > 1.0 {
                return Err("Value must be no more than 1".to_owned());
            }
            // Written so that not-a-number is refused as well.
            if *double >= 0.0 { Ok(()) } else { Err("Value must be at least 0".to_owned()) }
        }
        (Valid::OneOf(texts), Value::Text(text)) => one_of(text, texts),
        (Valid::HostCounts, Value::Text(text)) => host_counts(text),
        (Valid::NotEmpty, Value::Text(text)) if text.is_empty() => {
            Err("String must be non-empty".to_owned())
        }
        (Valid::NotEmpty, Value::List(list)) if list.is_empty() => {
            Err("must be a non-empty list".to_owned())
        }
        _ => Ok(()),
    }
}

fn at_least(number: i64, low: i64) -> Result<(), String> {
    if number < low { Err(format!("Value must be at least {low}")) } else { Ok(()) }
}

fn one_of(text: &str, texts: &[&str]) -> Result<(), String> {
    if texts.contains(&text) {
        return Ok(());
    }
    Err(format!("String must be one of: {}", texts.join(", ")))
}

/// Source: Kafka's `Csv.parseCsvMap` and `Utils.validHostPattern`.
fn host_counts(text: &str) -> Result<(), String> {
    let in_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-%._:".contains(&byte);
    let pair = |part: &str| {
        let (host, count) = part.rsplit_once(':')?;
        let is_valid = host.trim().bytes().all(in_host) && count.trim().parse::<i32>().is_ok();
        is_valid.then_some(())
    };
    // As in Java, nothing comes behind the last comma.
    let text = text.trim_end_matches(',');
    if text.trim().is_empty() || text.split(',').all(|part| pair(part).is_some()) {
        return Ok(());
    }
    Err("must be a list of hosts and numbers: host:count,host:count,...".to_owned())
}

fn throttled_replicas(name: &str, list: &[String]) -> Result<(), String> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pair = |part: &String| part.split_once(':').is_some_and(|(a, b)| number(a) && number(b));
    if list.iter().all(|part| part.is_empty() || pair(part)) || list == ["*"] {
        return Ok(());
    }
    Err(format!(
        "{name} must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    ))
}
