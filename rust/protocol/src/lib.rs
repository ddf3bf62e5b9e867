//! The Kafka wire as values: no I/O, no threads, no clock.
//!
//! Every API has one file in `schema/`; structs, codecs, version ranges and the ApiVersions answer
//! come from it. Nothing read from a frame is trusted. Every count is checked against the remaining
//! bytes before memory is taken for it, and no input makes this crate panic.
//! Source: the Kafka protocol guide, and the message definitions of Apache Kafka 4.3 as data.

pub mod compression;
pub mod error_code;
pub mod header;
pub mod messages;
mod nearest;
pub mod primitives;
pub mod record_batch;
pub mod types;

pub use error_code::ErrorCode;
pub use messages::ApiKey;
pub use nearest::nearest;
pub use primitives::{DecodeError, Reader, Records, WirePiece, Writer};
pub use types::{LeaderEpoch, Offset, Position, Uuid, VersionRange};
