use super::*;
use crate::import::{Chunk, Stream};

fn bytes(values: &[&str]) -> (Vec<i32>, Vec<u8>) {
    let mut offsets = vec![0];
    let mut all = Vec::new();
    for value in values {
        all.extend_from_slice(value.as_bytes());
        offsets.push(all.len() as i32);
    }
    (offsets, all)
}

fn table() -> Column {
    let (offsets, words) = bytes(&["orders"]);
    let words = Column::new("", 1, Values::Utf8 { offsets, bytes: words });
    let topic = Values::Dictionary { indices: vec![0, 0, 0], words: Box::new(words) };
    let mut validity = Validity::with_capacity(3);
    [true, false, true].into_iter().for_each(|valid| validity.push(valid));
    let (offsets, values) = bytes(&["a", "", "ccc"]);
    let columns = vec![
        Column::new("topic", 3, topic),
        Column::new("partition", 3, Values::Int32(vec![1, 1, 2])),
        Column::new("offset", 3, Values::Int64(vec![7, 8, 9])),
        Column::new("timestamp", 3, Values::TimestampMs(vec![1, 2, 3])),
        Column::nullable("value", validity, Values::Binary { offsets, bytes: values }),
    ];
    Column::new("", 3, Values::Struct(columns))
}

fn read(chunk: &Chunk) -> Vec<String> {
    let texts = |name| {
        let mut values = Vec::new();
        let column = chunk.column(name).expect("it has one");
        column.bytes(&mut values).expect("it is of bytes");
        let text =
            |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
        values.into_iter().map(text).collect::<Vec<_>>()
    };
    let mut offsets = Vec::new();
    chunk.column("offset").expect("it has one").numbers(&mut offsets).expect("it is of numbers");
    let rows = texts("topic").into_iter().zip(offsets).zip(texts("value"));
    rows.map(|((topic, offset), value)| format!("{topic:?} {offset:?} {value:?}")).collect()
}

const EXPECTED: [&str; 3] = [
    r#"Some("orders") Some(7) Some("a")"#,
    r#"Some("orders") Some(8) None"#,
    r#"Some("orders") Some(9) Some("ccc")"#,
];

#[test]
fn what_is_exported_reads_back_as_an_array_and_as_a_stream() {
    let (mut schema, mut array) = table().export();
    // SAFETY: both were made a line above.
    let mut one = unsafe { Stream::of_array(&mut schema, &mut array) };
    let chunk = one.next_chunk().expect("it is right").expect("there is one");
    assert_eq!(read(&chunk), EXPECTED);
    let mut exported = table().into_stream();
    // SAFETY: it was made a line above.
    let mut stream = unsafe { Stream::of_stream(&mut exported) }.expect("it has a type");
    let chunk = stream.next_chunk().expect("it is right").expect("there is one");
    assert_eq!(read(&chunk), EXPECTED);
    assert!(stream.next_chunk().expect("it is right").is_none());
}

#[test]
fn a_stream_outlives_no_array_that_was_taken_from_it() {
    let mut exported = table().into_stream();
    // SAFETY: it was made a line above.
    let mut stream = unsafe { Stream::of_stream(&mut exported) }.expect("it has a type");
    let chunk = stream.next_chunk().expect("it is right").expect("there is one");
    drop(stream);
    assert_eq!(read(&chunk), EXPECTED);
}

#[test]
fn lists_of_structs_tell_their_type_and_free_their_parts() {
    let (offsets, keys) = bytes(&["h"]);
    let key = Column::new("key", 1, Values::Utf8 { offsets, bytes: keys });
    let items = Column::new("item", 1, Values::Struct(vec![key]));
    let list = Values::List { offsets: vec![0, 1, 1], items: Box::new(items) };
    let (schema, array) = Column::new("headers", 2, list).export();
    assert_eq!((schema.n_children, array.n_children, array.n_buffers), (1, 1, 2));
    assert_eq!(array.length, 2);
}

#[test]
fn a_column_without_nulls_hands_out_no_bits() {
    let mut validity = Validity::default();
    (0..9).for_each(|_| validity.push(true));
    let (schema, array) = Column::nullable("x", validity, Values::Int32(vec![5; 9])).export();
    assert_eq!((schema.flags, array.null_count), (NULLABLE, 0));
    // SAFETY: an array of integers has two buffers.
    assert!(unsafe { (*array.buffers).is_null() });
}

#[test]
#[should_panic(expected = "has not 3 rows")]
fn buffers_that_are_too_short_are_not_handed_out() {
    let _ = Column::new("x", 3, Values::Int64(vec![1, 2]));
}

#[test]
#[should_panic(expected = "has not 2 rows")]
fn offsets_that_run_past_the_bytes_are_not_handed_out() {
    let _ = Column::new("x", 2, Values::Binary { offsets: vec![0, 1, 9], bytes: vec![0; 3] });
}
