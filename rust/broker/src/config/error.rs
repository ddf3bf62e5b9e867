//! What may be wrong with a configuration.

use std::path::PathBuf;

use super::broker_key;

/// Why a configuration is refused. The broker does not start with it; a running one keeps its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A key that neither Kafka nor we have.
    #[error("unknown key {key} ({origin})")]
    UnknownKey {
        /// The key as given.
        key: String,
        /// The file and line, variable or flag it came from.
        origin: String,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A value that its key cannot have; the text is Kafka's.
    #[error("{message} ({origin})")]
    InvalidValue {
        /// `Invalid value V for configuration K: ...`
        message: String,
        /// The file and line, variable or flag it came from.
        origin: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// A file that is not what its name says.
    #[error("{} line {line}: {reason}", path.display())]
    MalformedFile {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A profile that does not exist.
    #[error("unknown profile {name}")]
    UnknownProfile {
        /// The name as given.
        name: String,
    },
    /// Several keys or values are wrong; there are at least two.
    #[error("{} errors in the configuration", .0.len())]
    Several(Vec<ConfigError>),
}

impl ConfigError {
    /// The same, saying which topic it is about.
    pub(super) fn of_topic(self, name: &str) -> Self {
        self.with(&format!("for topic {name}"))
    }

    /// The same, saying which broker it is about.
    #[must_use]
    pub fn at_broker(self, id: i32) -> Self {
        self.with(&format!("at broker {id}"))
    }

    fn with(mut self, about: &str) -> Self {
        if let Self::InvalidValue { message, .. } = &mut self {
            *message = format!("{message} {about}");
        }
        self
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::UnknownKey { suggestion: Some(meant), .. } => format!("did you mean {meant}?"),
            Self::UnknownKey { .. } => {
                "`kafkalite config list` lists the keys that exist.".to_owned()
            }
            Self::InvalidValue { message, .. } => {
                let key = key_in(message).unwrap_or("KEY");
                format!("see `kafkalite config explain {key}`.")
            }
            Self::UnreadableFile { .. } => "give --config a file that can be read.".to_owned(),
            Self::MalformedFile { path, .. } if path.extension().is_some_and(|e| e == "toml") => {
                "write \"log.segment.bytes\" = 1048576, or put it under [log.segment].".to_owned()
            }
            Self::MalformedFile { .. } => "write key=value, one on a line.".to_owned(),
            Self::UnknownProfile { .. } => "the only profile is dev.".to_owned(),
            Self::Several(_) => {
                "`kafkalite config list` lists the keys with their values.".to_owned()
            }
        }
    }

    /// One of several errors as itself, several as [`Self::Several`].
    ///
    /// # Errors
    /// There is an error.
    pub(super) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// The key in `Invalid value V for configuration K: ...`.
fn key_in(message: &str) -> Option<&'static str> {
    let behind = message.split(" for configuration ").skip(1);
    let mut words = behind.filter_map(|rest| rest.split([':', ' ']).next());
    words.find_map(|word| broker_key(word).map(|key| key.name))
}
