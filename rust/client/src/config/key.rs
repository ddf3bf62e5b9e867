//! One row of the table of keys, and what makes a value valid.

use crate::error::ClientError;
use kafkalite_protocol::nearest;

/// Which client a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Sends records.
    Producer,
    /// Reads records.
    Consumer,
    /// Asks for and changes what is not records.
    Admin,
}

impl ClientKind {
    /// In lower case, as texts name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Admin => "admin client",
        }
    }
}

/// Whose a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Every client's.
    All,
    /// The producer's alone.
    Producer,
    /// The consumer's alone.
    Consumer,
    /// Those that wait for more than one request: consumer and admin client.
    Callers,
}

impl Owner {
    /// Whether `kind` has the key.
    pub const fn includes(self, kind: ClientKind) -> bool {
        match self {
            Self::All => true,
            Self::Producer => matches!(kind, ClientKind::Producer),
            Self::Consumer => matches!(kind, ClientKind::Consumer),
            Self::Callers => matches!(kind, ClientKind::Consumer | ClientKind::Admin),
        }
    }
}

/// The type of a value, as Kafka's `ConfigDef.Type` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// 32-bit signed.
    Int,
    /// 64-bit signed.
    Long,
    /// Text.
    String,
    /// Texts, separated by commas.
    List,
}

impl Kind {
    /// The type's name, in capitals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::Int => "INT",
            Self::Long => "LONG",
            Self::String => "STRING",
            Self::List => "LIST",
        }
    }
}

/// Which values of the right type are valid.
#[derive(Clone, Copy, Debug)]
pub enum Valid {
    /// All.
    Any,
    /// Numbers from this one on.
    AtLeast(i64),
    /// Numbers from the first to the second, both included.
    Between(i64, i64),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// Any text but the empty one.
    NotEmpty,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct ClientKey {
    /// Kafka's name, with dots.
    pub name: &'static str,
    /// Whose it is.
    pub owner: Owner,
    /// The type of its value.
    pub kind: Kind,
    /// Its value when it is not set; `None` is no value at all.
    pub default: Option<&'static str>,
    /// Which values are valid.
    pub valid: Valid,
    /// What it means.
    pub doc: &'static str,
}

impl ClientKey {
    /// Checks `value` and returns it as it is kept: trimmed, texts to choose from in lower case.
    pub(super) fn checked(&self, value: &str) -> Result<String, ClientError> {
        let value = value.trim();
        match self.kind {
            Kind::Boolean => match value.to_ascii_lowercase().as_str() {
                "true" => Ok("true".to_owned()),
                "false" => Ok("false".to_owned()),
                _ => Err(self.wrong(value, "is neither true nor false", None)),
            },
            Kind::Int => self.checked_number(value, i64::from(i32::MIN), i64::from(i32::MAX)),
            Kind::Long => self.checked_number(value, i64::MIN, i64::MAX),
            Kind::String | Kind::List => self.checked_text(value),
        }
    }

    fn checked_number(&self, value: &str, low: i64, high: i64) -> Result<String, ClientError> {
        let Ok(number) = value.parse::<i64>() else {
            return Err(self.wrong(value, "is not a whole number", None));
        };
        let (low, high) = match self.valid {
            Valid::AtLeast(least) => (least, high),
            Valid::Between(least, most) => (least, most),
            Valid::Any | Valid::OneOf(_) | Valid::NotEmpty => (low, high),
        };
        if number < low {
            return Err(self.wrong(value, &format!("is less than {low}"), None));
        }
        if number > high {
            return Err(self.wrong(value, &format!("is more than {high}"), None));
        }
        Ok(number.to_string())
    }

    fn checked_text(&self, value: &str) -> Result<String, ClientError> {
        match self.valid {
            Valid::OneOf(texts) => {
                let lower = value.to_ascii_lowercase();
                if texts.contains(&lower.as_str()) {
                    return Ok(lower);
                }
                let hint = nearest(value, texts.iter().copied());
                let hint = hint.map(|text| format!("did you mean {text}?"));
                let why = match texts {
                    [only] => format!("is not {only}, which is all there is so far"),
                    several => format!("is not one of {}", several.join(", ")),
                };
                Err(self.wrong(value, &why, hint))
            }
            Valid::NotEmpty if value.is_empty() => Err(self.wrong(value, "is empty", None)),
            _ => Ok(value.to_owned()),
        }
    }

    fn wrong(&self, value: &str, why: &str, hint: Option<String>) -> ClientError {
        ClientError::Config { key: self.name.to_owned(), why: format!("`{value}` {why}"), hint }
    }

    /// The valid values in Kafka's notation; empty if every value of the type is.
    pub fn valid_values(&self) -> String {
        match self.valid {
            Valid::Any => String::new(),
            Valid::AtLeast(low) => format!("[{low},...]"),
            Valid::Between(low, high) => format!("[{low},...,{high}]"),
            Valid::OneOf(texts) => format!("[{}]", texts.join(", ")),
            Valid::NotEmpty => "non-empty string".to_owned(),
        }
    }
}

/// Writes rows: owner, type, name, default, validity, meaning.
macro_rules! keys {
    ($($owner:ident $kind:ident $name:literal = $default:expr, $valid:expr, $doc:expr;)*) => {
        &[$($crate::config::key::ClientKey {
            name: $name,
            owner: $crate::config::key::Owner::$owner,
            kind: $crate::config::key::Kind::$kind,
            default: $default,
            valid: $valid,
            doc: $doc,
        }),*]
    };
}
pub(super) use keys;
