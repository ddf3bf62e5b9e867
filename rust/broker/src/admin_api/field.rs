//! Bytes of a record as something that a person reads: JSON, text or hex.
//!
//! The data is always a string. JSON stays as it was written, so no number is rounded.

use std::fmt::Write;

use serde::Serialize;
use serde::de::IgnoredAny;

/// How a client wants to see bytes. What does not fit is shown in the next form that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// An object or array as JSON, UTF-8 as text, everything else as hex.
    Auto,
    /// Any JSON value, then as `Auto`.
    Json,
    /// Text, with a replacement for what is not UTF-8.
    Text,
    /// Two digits for each byte.
    Hex,
}

impl Format {
    /// The names of all, for who gives none of them.
    pub(super) const NAMES: &'static str = "auto, json, text and hex";

    /// The format of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "json" => Self::Json,
            "text" => Self::Text,
            "hex" => Self::Hex,
            _ => return None,
        })
    }
}

/// Some bytes, shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Field {
    /// How many there are.
    pub bytes: usize,
    /// The form of `data`.
    encoding: &'static str,
    /// The bytes, or the first of them.
    pub data: String,
    /// Not all bytes are shown.
    truncated: bool,
}

/// Shows at most `most` of `bytes`.
pub(super) fn field(bytes: &[u8], format: Format, most: usize) -> Field {
    let shown = &bytes[..bytes.len().min(most)];
    let truncated = shown.len() < bytes.len();
    let (encoding, data) = encoded(shown, truncated, format);
    Field { bytes: bytes.len(), encoding, data, truncated }
}

fn encoded(shown: &[u8], truncated: bool, format: Format) -> (&'static str, String) {
    if format == Format::Hex {
        return ("hex", hex(shown));
    }
    if format == Format::Text {
        return ("text", String::from_utf8_lossy(shown).into_owned());
    }
    let Some(text) = readable(shown, truncated) else { return ("hex", hex(shown)) };
    let opens = text.trim_start().starts_with(['{', '[']);
    let may_be_json = !truncated && (opens || format == Format::Json);
    let is_json = may_be_json && serde_json::from_str::<IgnoredAny>(text).is_ok();
    (if is_json { "json" } else { "text" }, text.to_owned())
}

/// UTF-8 without control characters. A character that the cut divides is left out.
fn readable(shown: &[u8], truncated: bool) -> Option<&str> {
    let text = match std::str::from_utf8(shown) {
        Ok(text) => text,
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&shown[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_shown = |letter: char| !letter.is_control() || matches!(letter, '\t' | '\n' | '\r');
    text.chars().all(is_shown).then_some(text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], format: Format) -> (&'static str, String) {
        let field = field(bytes, format, 1_000);
        assert_eq!((field.bytes, field.truncated), (bytes.len(), false));
        (field.encoding, field.data)
    }

    #[test]
    fn bytes_are_shown_in_the_first_form_that_fits() {
        for (bytes, expected) in [
            (&b"{\"a\": 1.10}"[..], ("json", "{\"a\": 1.10}")),
            (b" [1, 2]\n", ("json", " [1, 2]\n")),
            (b"[1, 2", ("text", "[1, 2")),
            (b"17", ("text", "17")),
            (b"", ("text", "")),
            ("<script>ä\t".as_bytes(), ("text", "<script>ä\t")),
            (b"a\0b", ("hex", "610062")),
            (b"\x1b[31m", ("hex", "1b5b33316d")),
            (b"\xff\x00", ("hex", "ff00")),
        ] {
            let (encoding, data) = shown(bytes, Format::Auto);
            assert_eq!((encoding, data.as_str()), expected);
        }
        assert_eq!(shown(b"17", Format::Json), ("json", "17".to_owned()));
        assert_eq!(shown(b"x", Format::Json), ("text", "x".to_owned()));
        assert_eq!(shown(b"\xff", Format::Json), ("hex", "ff".to_owned()));
        assert_eq!(shown(b"{}", Format::Text), ("text", "{}".to_owned()));
        assert_eq!(shown(b"a\xff", Format::Text), ("text", "a\u{fffd}".to_owned()));
        assert_eq!(shown(b"{}", Format::Hex), ("hex", "7b7d".to_owned()));
    }

    #[test]
    fn what_is_cut_is_no_json_and_keeps_its_characters_whole() {
        let cut = field("ää".as_bytes(), Format::Auto, 3);
        assert_eq!((cut.bytes, cut.encoding, cut.data.as_str()), (4, "text", "ä"));
        assert!(cut.truncated);
        let cut = field(b"[]  ", Format::Auto, 2);
        assert_eq!((cut.encoding, cut.truncated), ("text", true));
        assert_eq!(field(b"\xff\xff", Format::Hex, 1).data, "ff");
    }

    /// A value of a megabyte of brackets must not overflow the stack.
    #[test]
    fn deep_json_ends_well() {
        let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
        assert_eq!(field(deep.as_bytes(), Format::Auto, 4 << 20).bytes, 2 << 20);
    }
}
