//! Words of explanations: spans of time, and lists that may be long.

/// A time in the unit that people use.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// The first `most` of a list, and how many more there are.
pub(super) fn among<T: AsRef<str>>(all: impl Iterator<Item = T>, most: usize) -> String {
    let all: Vec<T> = all.collect();
    let named: Vec<&str> = all.iter().take(most).map(AsRef::as_ref).collect();
    match all.len().saturating_sub(most) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_the_unit_of_its_size() {
        let spans = [0, 999, 1_000, 4_250, 59_999, 60_000, 3_723_000].map(span);
        let expected = ["0 ms", "999 ms", "1.0 s", "4.2 s", "59.9 s", "1 min 0 s", "62 min 3 s"];
        assert_eq!(spans, expected);
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(among(["a", "b"].iter(), 2), "a, b");
        assert_eq!(among(["a", "b", "c"].iter(), 1), "a and 2 more");
    }
}
