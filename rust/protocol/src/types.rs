//! Numbers that must not be mixed up, each a type of its own.

use std::fmt;

/// A record's place in its partition, counted in records from 0. End offsets are exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl Offset {
    /// The first offset of an empty log.
    pub const ZERO: Self = Self(0);

    /// The offset `count` records further on.
    pub const fn plus(self, count: i64) -> Self {
        Self(self.0 + count)
    }
}

/// A place in a segment's `.log` file, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u32);

/// The epoch of the partition's leader that wrote a batch; -1 where a client does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// "I do not know": such requests are not fenced.
    pub const UNKNOWN: Self = Self(-1);
}

/// A topic's, directory's or cluster's 128-bit id.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// No id at all.
    pub const ZERO: Self = Self([0; 16]);

    /// A version 4 id made of 16 random bytes, which the caller draws.
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Whether this is [`Uuid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Reads Kafka's spelling: 22 characters of URL-safe base64 without padding.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 22 {
            return None;
        }
        let mut value: u128 = 0;
        for (index, byte) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|letter| *letter == byte)? as u128;
            // 22 letters carry 132 bits; the last 4 of them are padding.
            value = if index < 21 { (value << 6) | digit } else { (value << 2) | (digit >> 4) };
        }
        Some(Self(value.to_be_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = u128::from_be_bytes(self.0);
        let mut text = [0_u8; 22];
        for (index, letter) in text.iter_mut().enumerate().take(21) {
            *letter = ALPHABET[(value >> (122 - 6 * index)) as usize & 63];
        }
        text[21] = ALPHABET[((value << 4) & 63) as usize];
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The versions `min..=max` of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Oldest version.
    pub min: i16,
    /// Newest version.
    pub max: i16,
}

impl VersionRange {
    /// Whether `version` is one of them.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

#[cfg(test)]
mod tests;
