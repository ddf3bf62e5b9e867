//! Did you mean: the key that is nearest to one that does not exist.

/// The name among `names` that takes the fewest single-letter edits to make of `given`, if they
/// are few for a name of that length.
#[must_use]
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A stranger chooses the length; no key comes near this one.
    if given.len() > 200 {
        return None;
    }
    let given = given.to_ascii_lowercase().replace('_', ".");
    let limit = (given.chars().count() / 4).clamp(1, 5);
    names
        .map(|name| (edits(&given, name), name))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, name)| (*edits, name.len()))
        .map(|(_, name)| name)
}

/// Levenshtein's distance, one row at a time.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
