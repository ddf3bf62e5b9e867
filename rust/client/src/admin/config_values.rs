//! Values of configuration keys, which can be spelled in several ways.

/// Whether a broker reads both values as the same one. Brokers before Kafka 2.6 do not say which
/// type a key has, so the values themselves are looked at. Lists are compared item by item.
/// Source: Kafka's `ConfigDef.parseType`, which trims all of them.
pub(super) fn mean_the_same(one: &str, other: &str) -> bool {
    let (ones, others) = (items(one), items(other));
    ones.len() == others.len()
        && ones.iter().zip(&others).all(|(one, other)| is_same_item(one, other))
}

fn items(value: &str) -> Vec<&str> {
    value.split(',').map(str::trim).collect()
}

fn is_same_item(one: &str, other: &str) -> bool {
    one == other || same_boolean(one, other) || same_number(one, other)
}

fn same_boolean(one: &str, other: &str) -> bool {
    let is_boolean = ["true", "false"].iter().any(|name| one.eq_ignore_ascii_case(name));
    is_boolean && one.eq_ignore_ascii_case(other)
}

/// Whole numbers are compared as such: a double does not hold all of them.
fn same_number(one: &str, other: &str) -> bool {
    match (one.parse::<i64>(), other.parse::<i64>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::mean_the_same;

    #[test]
    fn spellings_of_one_value_are_the_same_and_others_are_not() {
        for (asked, told) in [
            ("compact, delete", "compact,delete"),
            ("0.50", "0.5"),
            ("TRUE", "true"),
            (" 3600000 ", "3600000"),
            ("+3600000", "3600000"),
            ("0001000", "1000"),
            ("zstd", "zstd"),
        ] {
            assert!(mean_the_same(asked, told), "{asked} {told}");
        }
        for (asked, told) in [
            ("compact,delete", "delete,compact"),
            ("compact", "compact,delete"),
            ("TRUE", "false"),
            ("ZSTD", "zstd"),
            ("0.50", "0.55"),
            ("9223372036854775807", "9223372036854775806"),
            ("", "0"),
        ] {
            assert!(!mean_the_same(asked, told), "{asked} {told}");
        }
    }
}
