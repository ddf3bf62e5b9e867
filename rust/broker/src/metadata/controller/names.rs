//! Which names a topic may have.
//!
//! Source: Kafka's `Topic`, word for word where a client sees the words.

use super::super::image::MetadataImage;
use std::collections::HashMap;

/// The longest name, in characters: a directory is named `TOPIC-PARTITION`.
const MAX_NAME_LENGTH: usize = 249;

/// Why `name` cannot be a topic's, or `None` when it can.
pub fn invalid_topic_name(name: &str) -> Option<String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        Some("the empty string is not allowed".to_owned())
    } else if name == "." || name == ".." {
        Some(format!("'{name}' is not allowed"))
    } else if name.chars().count() > MAX_NAME_LENGTH {
        Some(format!(
            "the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        ))
    } else if !name.bytes().all(legal) {
        Some(format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' \
             and '-'"
        ))
    } else {
        None
    }
}

/// From how many new names on it pays to look at every old one once.
const MANY: usize = 16;

/// The names that topics have, as their metrics spell them: there `.` and `_` are the same.
pub struct TakenNames<'a> {
    image: &'a MetadataImage,
    /// Spelled with `_` -> as it is; only where many are asked for.
    plain: Option<HashMap<String, &'a str>>,
}

impl<'a> TakenNames<'a> {
    /// Those of `image`, for `asked` questions.
    pub fn of(image: &'a MetadataImage, asked: usize) -> Self {
        let plain = |name: &'a str| (name.replace('.', "_"), name);
        let all = || image.topics.iter().map(|topic| plain(&topic.name)).collect();
        Self { image, plain: (asked >= MANY).then(all) }
    }

    /// The topic whose metrics would have the name of `name`'s.
    pub fn collides(&self, name: &str) -> Option<String> {
        match &self.plain {
            None => collides(self.image, name),
            Some(plain) => {
                let other = *plain.get(&name.replace('.', "_"))?;
                (other != name).then(|| other.to_owned())
            }
        }
    }
}

/// The topic whose metrics would have the name of `name`'s: there `.` and `_` are the same.
fn collides(image: &MetadataImage, name: &str) -> Option<String> {
    if !name.contains(['.', '_']) {
        return None;
    }
    let plain = name.replace('.', "_");
    // Such names share everything before the first of either character: a short run of the sorted
    // names.
    let stem = name.split(['.', '_']).next().unwrap_or_default();
    image
        .topics
        .iter_from(stem)
        .take_while(|topic| topic.name.starts_with(stem))
        .find(|topic| *topic.name != *name && topic.name.replace('.', "_") == plain)
        .map(|topic| topic.name.to_string())
}
