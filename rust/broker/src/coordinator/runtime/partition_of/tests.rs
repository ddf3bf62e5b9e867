use super::*;

#[test]
fn the_hash_is_that_of_java() {
    for (text, hash) in [
        ("", 0),
        ("a", 97),
        ("consumer-group", -1_738_392_088),
        ("polygenelubricants", i32::MIN),
        ("\u{1F600}", 1_772_899),
    ] {
        assert_eq!(java_hash(text), hash, "{text}");
    }
}

#[test]
fn a_group_always_has_a_partition() {
    for (group, count, partition) in [("a", 50, 47), ("", 50, 0), ("polygenelubricants", 50, 0)] {
        assert_eq!(partition_of(group, count), partition, "{group}");
    }
}
