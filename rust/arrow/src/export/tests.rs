use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatchOptions, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field};

use super::*;
use crate::import::tests::kept;
use crate::import::{Chunk, Stream};

fn table() -> RecordBatch {
    let words = Arc::new(StringArray::from(vec!["orders"]));
    let mut values = BinaryBuilder::new();
    [Some("a"), None, Some("ccc")].into_iter().for_each(|value| values.append_option(value));
    let columns: [(&str, bool, ArrayRef); 5] = [
        ("topic", false, Arc::new(DictionaryArray::new(Int32Array::from(vec![0, 0, 0]), words))),
        ("partition", false, Arc::new(Int32Array::from(vec![1, 1, 2]))),
        ("offset", false, Arc::new(Int64Array::from(vec![7, 8, 9]))),
        ("timestamp", false, Arc::new(TimestampMillisecondArray::from(vec![1, 2, 3]))),
        ("value", true, Arc::new(values.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, nullable, values)| (name, values, nullable)),
    )
    .expect("the columns are of three rows")
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
    let (schema, exported) = array(table()).expect("its types have names");
    let mut one = Stream::of_array(&schema, exported).expect("it has a type");
    let chunk = one.next_chunk().expect("it is right").expect("there is one");
    assert_eq!(read(&chunk), EXPECTED);
    let mut many = Stream::of_stream(stream(table())).expect("it has a type");
    let chunk = many.next_chunk().expect("it is right").expect("there is one");
    assert_eq!(read(&chunk), EXPECTED);
    assert!(many.next_chunk().expect("it is right").is_none());
}

#[test]
fn an_array_outlives_the_stream_that_it_was_taken_from() {
    let mut stream = Stream::of_stream(stream(table())).expect("it has a type");
    let chunk = stream.next_chunk().expect("it is right").expect("there is one");
    drop(stream);
    assert_eq!(read(&chunk), EXPECTED);
}

#[test]
fn a_table_is_not_copied_and_is_freed_by_its_reader() {
    let (bytes, owner) = kept(&[1, 0, 0, 0, 2, 0, 0, 0]);
    let (address, numbers) = (bytes.as_ptr(), Int32Array::new(bytes.into(), None));
    let table = RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]);
    let (schema, exported) = array(table.expect("one column")).expect("its types have names");
    assert_eq!(exported.child(0).buffer(1), address);
    drop((schema, exported));
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn a_column_without_nulls_hands_out_no_bits() {
    let (schema, exported) = array(table()).expect("its types have names");
    let (partition, value) = (1, 4);
    assert!(!schema.child(partition).nullable());
    assert!(exported.child(partition).buffer(0).is_null());
    assert!(schema.child(value).nullable());
    assert_eq!(exported.child(value).null_count(), 1);
}

#[test]
fn a_table_without_columns_keeps_its_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let empty = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
    let (_, exported) = array(empty.expect("it has no columns")).expect("its types have names");
    assert_eq!((exported.len(), exported.num_children()), (7, 0));
}

#[test]
fn a_type_may_be_asked_for_without_a_table() {
    let of = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
    let schema = schema(&of).expect("its types have names");
    assert_eq!((schema.format(), schema.child(0).name()), ("+s", Some("n")));
}
