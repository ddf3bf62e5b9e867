//! Which partition of an internal topic a group, or whatever else is coordinated, lives in.
//!
//! Source: Kafka's `GroupCoordinatorService.partitionFor` and `Utils.abs`.

/// The partition that `key` is stored in, out of `count`.
pub fn partition_of(key: &str, count: i32) -> i32 {
    let hash = java_hash(key);
    // The one number that has no positive counterpart counts as 0.
    let positive = if hash == i32::MIN { 0 } else { hash.abs() };
    positive % count.max(1)
}

/// Java's `String.hashCode`, which goes over UTF-16.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests;
