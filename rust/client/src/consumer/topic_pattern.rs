//! Topics by a pattern: a regular expression that the whole name must match.
//!
//! Names of topics are ASCII, so the expression knows no more: `\\w` is a letter, a digit or `_`.

use std::sync::Arc;

use crate::consumer::subscription::TopicFilter;
use crate::error::ClientError;

/// Memory that a compiled pattern may take, in bytes.
const COMPILED_MAX_BYTES: usize = 1 << 20;

/// Which topics `pattern` stands for. It matches in time linear in the name, whatever it is.
///
/// # Errors
/// If it is no regular expression, or one with look-around or references back, which would take
/// longer.
pub fn filter(pattern: &str) -> Result<TopicFilter, ClientError> {
    let compiled = regex::bytes::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .unicode(false)
        .size_limit(COMPILED_MAX_BYTES)
        .build();
    let compiled = compiled.map_err(|error| ClientError::InvalidArgument {
        what: "pattern".to_owned(),
        why: error.to_string(),
    })?;
    Ok(Arc::new(move |name: &str| compiled.is_match(name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, name, matches) in [
            ("orders", "orders", true),
            ("orders", "orders-2", false),
            ("a|b", "ab", false),
            (r"^orders-\d+$", "orders-17", true),
            (r"[a-z.]*\.log", "x.y.log", true),
            ("", "x", false),
        ] {
            let filter = filter(pattern).expect("a good pattern");
            assert_eq!(filter(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in ["(", "(?=look)ahead", "a{1000000}"] {
            assert!(matches!(filter(pattern), Err(ClientError::InvalidArgument { .. })));
        }
    }
}
