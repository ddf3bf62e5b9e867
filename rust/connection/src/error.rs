//! Why a broker was not reached, or did not do what it was asked.

use kafkalite_protocol::ErrorCode;

/// Why there is no answer, or why the answer is no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// No address of the cluster answered.
    #[error("cannot reach any broker{}", lines(causes))]
    NoBrokerReachable {
        /// Each address that was tried, and what happened there.
        causes: Vec<(String, String)>,
        /// How long it was tried, in milliseconds.
        after_ms: u64,
    },
    /// A broker answered, and refused.
    #[error("{about}: {}{}", code.name(), after_colon(message))]
    Refused {
        /// Kafka's code.
        code: ErrorCode,
        /// The broker's own words, where it sent some.
        message: Option<String>,
        /// What was asked for.
        about: String,
    },
    /// No answer came in time.
    #[error("{what} took longer than {after_ms} ms")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long, in milliseconds.
        after_ms: u64,
    },
    /// The connection ended while something was on its way, or was never made.
    #[error("{address}: {why}")]
    Disconnected {
        /// The broker's address.
        address: String,
        /// Who ended it, and why.
        why: String,
    },
    /// A broker sent what Kafka's protocol does not allow.
    #[error("{address}: {why}")]
    MalformedResponse {
        /// The broker's address.
        address: String,
        /// What was wrong with it.
        why: String,
    },
    /// A broker announced a response beyond [`crate::ConnectionConfig::response_max_bytes`].
    #[error("{address}: a response of {size} bytes, at most {limit} are accepted")]
    ResponseTooLarge {
        /// The broker's address.
        address: String,
        /// The size that the response claims, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The broker speaks no version of an API that this side speaks.
    #[error("{address} does not serve {api} in {needed}{}", has(served))]
    UnsupportedVersion {
        /// The broker's address.
        address: String,
        /// Kafka's name of the API.
        api: &'static str,
        /// The versions this side speaks.
        needed: String,
        /// The versions the broker speaks, if any.
        served: Option<String>,
    },
}

fn lines(causes: &[(String, String)]) -> String {
    causes.iter().map(|(address, cause)| format!("\n  {address}  {cause}")).collect()
}

fn after_colon(text: &Option<String>) -> String {
    text.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
}

fn has(served: &Option<String>) -> String {
    served.as_ref().map(|versions| format!(", it serves {versions}")).unwrap_or_default()
}

impl ConnectionError {
    /// A refusal with `code`; `about` says what was asked for.
    pub fn refused(code: ErrorCode, about: impl Into<String>) -> Self {
        Self::Refused { code, message: None, about: about.into() }
    }

    /// `Ok` for code 0, else a refusal with the broker's own words; empty ones are left out.
    pub(crate) fn check(
        code: i16,
        message: Option<&str>,
        about: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        if code == 0 {
            return Ok(());
        }
        let message = message.filter(|text| !text.is_empty()).map(str::to_owned);
        Err(Self::Refused { code: ErrorCode::from_code(code), message, about: about() })
    }

    /// Kafka's code for it, where Kafka has one.
    pub fn code(&self) -> Option<ErrorCode> {
        Some(match self {
            Self::Refused { code, .. } => *code,
            Self::NoBrokerReachable { .. } => ErrorCode::BrokerNotAvailable,
            Self::Timeout { .. } => ErrorCode::RequestTimedOut,
            Self::Disconnected { .. } => ErrorCode::NetworkException,
            Self::UnsupportedVersion { .. } => ErrorCode::UnsupportedVersion,
            Self::MalformedResponse { .. } | Self::ResponseTooLarge { .. } => return None,
        })
    }

    /// Whether the same call can succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            // Kafka's tools give up on it; a client waits for the broker to come back.
            Self::Refused { code: ErrorCode::BrokerNotAvailable, .. } => true,
            Self::Refused { code, .. } => code.is_retriable(),
            Self::NoBrokerReachable { .. } | Self::Timeout { .. } | Self::Disconnected { .. } => {
                true
            }
            Self::MalformedResponse { .. }
            | Self::ResponseTooLarge { .. }
            | Self::UnsupportedVersion { .. } => false,
        }
    }

    /// Whether the way to the broker failed, not what was asked of it: another connection, to the
    /// same or to another broker, may do.
    pub fn is_transport(&self) -> bool {
        matches!(
            self,
            Self::Disconnected { .. }
                | Self::Timeout { .. }
                | Self::MalformedResponse { .. }
                | Self::ResponseTooLarge { .. }
        )
    }
}
