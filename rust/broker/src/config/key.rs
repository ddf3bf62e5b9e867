//! What the table says about one key: its type, its default, what is valid, who may change it.
//!
//! Source: Kafka's `ConfigDef` and `ConfigDef.ConfigKey`.

/// The type of a value, as `ConfigDef.Type` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// 32-bit signed.
    Int,
    /// 64-bit signed.
    Long,
    /// 16-bit signed.
    Short,
    /// A floating-point number.
    Double,
    /// Text.
    String,
    /// Texts, separated by commas.
    List,
    /// The name of a class; only ever carried, never loaded.
    Class,
    /// Text that no answer and no log line shows.
    Password,
}

impl Kind {
    /// The type's number in DescribeConfigs (`ConfigEntry.ConfigType`).
    #[must_use]
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    /// The type's name, in capitals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }
}

/// The value of a key that is not set.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// Nothing: another key decides, or the feature is off.
    Null,
    /// This text.
    Text(&'static str),
    /// What this machine suggests.
    Machine(fn() -> String),
}

impl DefaultValue {
    /// The default as text, or nothing.
    #[must_use]
    pub fn text(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Text(text) => Some(text.to_owned()),
            Self::Machine(ask) => Some(ask()),
        }
    }
}

/// Which values of the right type are valid.
#[derive(Debug, Clone, Copy)]
pub enum Valid {
    /// All.
    Any,
    /// Numbers from this one on.
    AtLeast(i64),
    /// Numbers from the first to the second, both included.
    Between(i64, i64),
    /// -1, or numbers from the first to the second.
    MinusOneOr(i64, i64),
    /// Fractions from 0 to 1.
    Fraction,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of these texts, each at most once.
    SomeOf(&'static [&'static str]),
    /// A list of any texts but the empty one.
    NoneEmpty,
    /// Any text but the empty one.
    NotEmpty,
    /// `*`, or a list of `partition:broker`; empty parts are left out.
    ThrottledReplicas,
    /// Text that is a list of `host:count`.
    HostCounts,
}

/// Who may change a key while the broker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dynamic {
    /// Never: the key is read once, at the start.
    ReadOnly,
    /// One broker at a time.
    PerBroker,
    /// One broker, or all at once.
    ClusterWide,
}

/// How much attention a key deserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    /// Look at it before running in earnest.
    High,
    /// Worth knowing.
    Medium,
    /// Leave it alone.
    Low,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKey {
    /// The key as files spell it.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// Its value when it is not set.
    pub default: DefaultValue,
    /// Which values are valid.
    pub valid: Valid,
    /// How much attention it deserves.
    pub importance: Importance,
    /// Who may change it while the broker runs.
    pub dynamic: Dynamic,
    /// What it means.
    pub doc: &'static str,
}

impl ConfigKey {
    /// The unit of its numbers, as the name tells it; empty for counts and texts.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let last = self.name.rsplit('.').next().unwrap_or_default();
        match last {
            "ms" | "bytes" | "seconds" | "minutes" | "hours" => last,
            "size" if self.name.ends_with("buffer.size") => "bytes",
            _ => "",
        }
    }

    /// The valid values in Kafka's notation; empty if every value of the type is.
    #[must_use]
    pub fn valid_values(&self) -> String {
        match self.valid {
            Valid::Any => String::new(),
            Valid::AtLeast(low) => format!("[{low},...]"),
            Valid::Between(low, high) => format!("[{low},...,{high}]"),
            Valid::MinusOneOr(low, high) => format!("[{low},...,{high}] or -1"),
            Valid::Fraction => "[0,...,1]".to_owned(),
            Valid::OneOf(texts) | Valid::SomeOf(texts) => format!("[{}]", texts.join(", ")),
            Valid::NotEmpty => "non-empty string".to_owned(),
            Valid::NoneEmpty => "list without empty texts".to_owned(),
            Valid::ThrottledReplicas => {
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...".to_owned()
            }
            Valid::HostCounts => "[host]:[count],[host]:[count],...".to_owned(),
        }
    }
}

/// A topic's key whose default is what the broker says under one of its own keys.
#[derive(Debug, Clone, Copy)]
pub struct Synonym {
    /// The broker's key.
    pub name: &'static str,
    /// How many of the topic key's units one of this key's units is.
    pub factor: i64,
}

/// One row of the topics' part of the table.
#[derive(Debug, Clone, Copy)]
pub struct TopicKey {
    /// The key itself. Its default is [`DefaultValue::Null`] wherever there are synonyms.
    pub key: ConfigKey,
    /// The broker's keys that give the default, strongest first.
    pub synonyms: &'static [Synonym],
}

/// Writes rows of the table: importance, who may change it, type, name, default, validity, meaning.
macro_rules! keys {
    ($($importance:ident $dynamic:ident $kind:ident $name:literal
       = $default:expr, $valid:expr, $doc:expr;)*) => {
        &[$(ConfigKey {
            name: $name,
            kind: Kind::$kind,
            default: $default,
            valid: $valid,
            importance: Importance::$importance,
            dynamic: Dynamic::$dynamic,
            doc: $doc,
        }),*]
    };
}
pub(super) use keys;
