//! Every request, response and record of the wire, made from `schema/*.schema` at build time.

use crate::primitives::{DecodeError, Reader, Writer};
use crate::types::VersionRange;

/// A struct of the wire.
pub trait Wire: Sized {
    /// Writes the struct as `version` spells it; fields that version lacks are left out.
    fn encode(&self, writer: &mut Writer, version: i16);

    /// Reads the struct as `version` spells it; fields that version lacks get their defaults.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError>;
}

/// A struct of a response whose last array of structs may be written one element at a time.
///
/// An answer to a million names need not be in memory as structs before it is there as bytes.
pub trait Listing: Wire {
    /// What the array holds.
    type Element: Wire;

    /// As [`Wire::encode`], with `count` elements in the place of those that the array holds:
    /// `element` is called for each of them in order, and writes it.
    fn encode_listing(
        &self,
        writer: &mut Writer,
        version: i16,
        count: usize,
        element: impl FnMut(&mut Writer),
    );
}

/// A message with versions of its own.
pub trait Versioned: Wire {
    /// The versions that can be read and written.
    const VERSIONS: VersionRange;
    /// The first flexible one; `i16::MAX` where there is none.
    const FLEXIBLE_FROM: i16;
}

/// A request, and what answers it.
pub trait Request: Versioned {
    /// The API it belongs to.
    const API_KEY: ApiKey;
    /// What answers it.
    type Response: Versioned;
}

/// What generated modules need.
mod support {
    #[cfg(test)]
    pub use super::tests::{Generator, Sample};
    pub use super::{ApiKey, Listing, Request, Versioned, Wire};
    pub use crate::primitives::{DecodeError, Reader, Records, Writer};
    pub use crate::types::{Uuid, VersionRange};
    pub use bytes::Bytes;
}

include!(concat!(env!("OUT_DIR"), "/messages.rs"));

#[cfg(test)]
pub(crate) mod tests;
