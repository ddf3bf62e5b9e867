//! Did you mean: the name that is nearest to one that does not exist.
//!
//! People type the names of configuration keys, values and flags. The broker and the clients refuse
//! a wrong name with the same suggestion.

/// The name among `names` that takes the fewest single-letter edits to make of `given`, if they
/// are few for a name of that length. Two swapped letters are one edit. Capitals, and underscores
/// for dots, are no edits: keys are written in either way. `names` are in lower case.
#[must_use]
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A stranger chooses the length; no name comes near this one.
    if given.len() > 200 {
        return None;
    }
    let given = given.to_ascii_lowercase().replace('_', ".");
    let limit = (given.chars().count() / 4).clamp(1, 5);
    names
        .map(|name| (strsim::osa_distance(&given, &name.replace('_', ".")), name))
        // A name that has no letter of it was not meant.
        .filter(|(edits, name)| *edits <= limit && *edits < name.len())
        .min_by_key(|(edits, name)| (*edits, name.len()))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_name_with_the_fewest_edits_is_meant_if_they_are_few() {
        let names =
            ["log.dirs", "log.segment.bytes", "log.segment.ms", "round_robin", "range", "0"];
        for (given, meant) in [
            ("log.segmnet.bytes", Some("log.segment.bytes")),
            ("LOG_SEGMENT_MS", Some("log.segment.ms")),
            ("log.dir", Some("log.dirs")),
            ("roundrobin", Some("round_robin")),
            ("rang", Some("range")),
            ("ragne", Some("range")),
            ("pizza", None),
            ("2", None),
            ("log.dirs".repeat(30).as_str(), None),
        ] {
            assert_eq!(nearest(given, names.into_iter()), meant, "{given}");
        }
    }
}
