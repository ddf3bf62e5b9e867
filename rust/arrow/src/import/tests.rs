#![allow(clippy::unwrap_used)]

use std::ptr::NonNull;

use arrow_array::ffi::to_ffi;
use arrow_array::types::{Int32Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float64Array, GenericListArray, Int8Array, Int32Array, Int64Array,
    LargeStringArray, ListArray, MapArray, NullArray, OffsetSizeTrait, StringArray,
    StringViewArray, StructArray, TimestampMicrosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{Field, Fields};

use super::*;

/// Bytes of a maker and their owner, which counts one reference when the bytes were released.
pub(crate) fn kept(bytes: &[u8]) -> (Buffer, Arc<Vec<u8>>) {
    let owner = Arc::new(bytes.to_vec());
    let start = NonNull::new(owner.as_ptr().cast_mut()).unwrap();
    let lent = Arc::clone(&owner);
    // SAFETY: the buffer keeps its owner.
    (unsafe { Buffer::from_custom_allocation(start, bytes.len(), lent) }, owner)
}

fn take_over(data: &ArrayData) -> Result<Chunk, ImportError> {
    let (array, schema) = to_ffi(data).unwrap();
    one(&schema, array)
}

fn one(schema: &FFI_ArrowSchema, array: FFI_ArrowArray) -> Result<Chunk, ImportError> {
    let mut stream = Stream::of_array(schema, array)?;
    let chunk = stream.next_chunk()?.unwrap();
    assert!(stream.next_chunk()?.is_none());
    Ok(chunk)
}

fn of(array: impl Array) -> Chunk {
    take_over(&array.into_data()).unwrap()
}

fn bytes(chunk: &Chunk, name: &str) -> Vec<Option<String>> {
    let mut out = Vec::new();
    chunk.column(name).unwrap().bytes(&mut out).unwrap();
    out.iter().map(|value| value.map(|v| String::from_utf8(v.to_vec()).unwrap())).collect()
}

fn numbers(chunk: &Chunk) -> Vec<Option<i64>> {
    let mut out = Vec::new();
    chunk.column("").unwrap().numbers(&mut out).unwrap();
    out
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| (*text != "-").then(|| (*text).to_owned())).collect()
}

const TEXTS: [Option<&str>; 3] = [Some("a"), None, Some("ccc")];

/// A struct of these columns, none of them cut, whose rows are `offset..offset + rows`.
fn struct_of(columns: &[(&str, ArrayRef)], offset: usize, rows: usize) -> ArrayData {
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let fields: Fields = columns.iter().map(field).collect();
    let children = columns.iter().map(|(_, array)| array.to_data()).collect();
    let data = ArrayData::builder(DataType::Struct(fields)).len(rows).offset(offset);
    // SAFETY: only the import reads the array, and the import is under test.
    unsafe { data.child_data(children).build_unchecked() }
}

#[test]
fn bytes_and_texts_are_read_in_each_of_their_forms() {
    let fixed = FixedSizeBinaryArray::new(2, Buffer::from(b"abbccdd0"), None).slice(1, 2);
    let cases: [(Chunk, Vec<Option<String>>); 8] = [
        (of(StringArray::from(TEXTS.to_vec())), some(&["a", "-", "ccc"])),
        (of(StringArray::from(TEXTS.to_vec()).slice(1, 2)), some(&["-", "ccc"])),
        (of(LargeStringArray::from(TEXTS.to_vec())), some(&["a", "-", "ccc"])),
        (of(BinaryArray::from(vec![&b"x"[..], b"yy"]).slice(1, 1)), some(&["yy"])),
        (of(StringViewArray::from(TEXTS.to_vec()).slice(1, 2)), some(&["-", "ccc"])),
        (of(fixed), some(&["bc", "cd"])),
        (of(NullArray::new(2)), some(&["-", "-"])),
        (of(StringArray::from(Vec::<&str>::new())), some(&[])),
    ];
    for (chunk, expected) in cases {
        assert!(!chunk.has_columns());
        assert_eq!(chunk.rows(), expected.len());
        assert_eq!(bytes(&chunk, "anything"), expected);
    }
}

#[test]
fn views_are_read_from_themselves_or_from_their_buffer() {
    let long = "a text that is longer than twelve bytes";
    let views = BinaryViewArray::from_iter([Some("abc"), None, Some("twelve bytes"), Some(long)]);
    let expected = ["abc", "-", "twelve bytes", long];
    assert_eq!(bytes(&of(views.clone()), ""), some(&expected));
    assert_eq!(bytes(&of(views.slice(2, 2)), ""), some(&expected[2..]));
}

/// What stands under a null means nothing, and some makers leave anything there.
#[test]
fn a_view_under_a_null_is_not_looked_at() {
    let views = ScalarBuffer::from(vec![u128::MAX, 1 | u128::from(b'x') << 32]);
    let data = ArrayData::builder(DataType::Utf8View).len(2).add_buffer(views.into_inner());
    let data = data.nulls(Some(NullBuffer::from(vec![false, true])));
    // SAFETY: only the import reads the array.
    let chunk = take_over(&unsafe { data.build_unchecked() }).unwrap();
    assert_eq!(bytes(&chunk, ""), some(&["-", "x"]));
}

#[test]
fn a_struct_has_columns_by_name_and_its_offset_is_theirs() {
    let keys: ArrayRef = Arc::new(StringArray::from(TEXTS.to_vec()));
    let times = TimestampMicrosecondArray::from(vec![1_999, 2_000, -1]).with_timezone("UTC");
    let columns = [("key", keys), ("timestamp", Arc::new(times) as ArrayRef)];
    let chunk = take_over(&struct_of(&columns, 1, 2)).unwrap();
    assert_eq!(chunk.names().collect::<Vec<_>>(), ["key", "timestamp"]);
    assert_eq!(bytes(&chunk, "key"), some(&["-", "ccc"]));
    let mut numbers = Vec::new();
    chunk.column("timestamp").unwrap().numbers(&mut numbers).unwrap();
    assert_eq!(numbers, [Some(2), Some(-1)], "microseconds are rounded down to milliseconds");
    assert!(chunk.column("value").is_none());
}

/// A batch that was read could not be sent: its headers are lists, which no producer asks for.
#[test]
fn a_column_of_any_type_may_stand_beside_those_that_are_read() {
    let item = Arc::new(Field::new("item", DataType::Float64, true));
    let floats = Arc::new(Float64Array::from(vec![0.0; 9]));
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 3, floats, None));
    let texts: ArrayRef = Arc::new(StringArray::from(TEXTS.to_vec()));
    let columns = [("value", texts), ("headers", lists)];
    let (array, schema) = to_ffi(&struct_of(&columns, 0, 3)).unwrap();
    let unknown = |format, name| {
        FFI_ArrowSchema::try_new(format, vec![], None).unwrap().with_name(name).unwrap()
    };
    let strange = vec![unknown("u", "value"), unknown("+of tomorrow", "headers")];
    let strange = FFI_ArrowSchema::try_new("+s", strange, None).unwrap();
    let copy = to_ffi(&struct_of(&columns, 0, 3)).unwrap().0;
    for (chunk, found) in [
        (one(&schema, array).unwrap(), "fixedsizelist"),
        (one(&strange, copy).unwrap(), "`+of tomorrow`"),
    ] {
        assert_eq!(bytes(&chunk, "value").len(), 3);
        let headers = chunk.column("headers").unwrap();
        let error = headers.bytes(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains(&format!("`headers` has Arrow type {found}, expected")), "{error}");
        assert!(headers.numbers(&mut Vec::new()).is_err());
    }
}

#[test]
fn a_dictionary_is_looked_up() {
    let words = Arc::new(StringArray::from(TEXTS.to_vec()));
    let indices = UInt8Array::from(vec![Some(2), Some(0), None, Some(1)]);
    let array = DictionaryArray::<UInt8Type>::new(indices, words);
    assert_eq!(bytes(&of(array.clone()), ""), some(&["ccc", "a", "-", "-"]));
    assert_eq!(bytes(&of(array.slice(1, 2)), ""), some(&["a", "-"]));
}

#[test]
fn a_dictionary_of_numbers_is_looked_up_and_its_indices_are_no_numbers() {
    let times = Arc::new(TimestampMicrosecondArray::from(vec![7_000, 8_000, 9_000]));
    let indices = Int32Array::from(vec![Some(2), Some(0), None]);
    let array = DictionaryArray::<Int32Type>::new(indices, times);
    assert_eq!(numbers(&of(array)), [Some(9), Some(7), None]);
}

/// Pairs whose name and value are the same.
fn pairs(texts: &[Option<&str>], valid: Option<Vec<bool>>) -> StructArray {
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let field = |name| Field::new(name, DataType::Utf8, true);
    let fields = Fields::from(vec![field("key"), field("value")]);
    StructArray::new(fields, vec![Arc::clone(&texts), texts], valid.map(NullBuffer::from))
}

fn lists<O: OffsetSizeTrait>(ends: Vec<O>, pairs: StructArray) -> GenericListArray<O> {
    let item = Arc::new(Field::new("item", pairs.data_type().clone(), true));
    let nulls = NullBuffer::from((1..ends.len()).map(|row| row != 2).collect::<Vec<_>>());
    GenericListArray::new(item, OffsetBuffer::new(ends.into()), Arc::new(pairs), Some(nulls))
}

type Halves<'a> = (Vec<usize>, Vec<Option<&'a [u8]>>);

fn pairs_of(chunk: &Chunk) -> Result<Halves<'_>, ImportError> {
    let (mut counts, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    chunk.column("headers").unwrap().pairs(&mut counts, &mut names, &mut values)?;
    assert_eq!(names, values);
    Ok((counts, names))
}

#[test]
fn lists_of_pairs_are_read_row_by_row() {
    let texts = [Some("a"), Some("hidden"), None, Some("ccc")];
    let small = lists(vec![0, 1, 2, 4], pairs(&texts, None));
    let large = lists(vec![0_i64, 1, 2, 4], pairs(&texts, None));
    let names = |names: &[&'static str]| names.iter().map(|name| Some(name.as_bytes())).collect();
    let all: Vec<Option<&[u8]>> = [names(&["a"]), vec![None], names(&["ccc"])].concat();
    assert_eq!(pairs_of(&of(small.clone())).unwrap(), (vec![1, 0, 2], all.clone()));
    assert_eq!(pairs_of(&of(large)).unwrap(), (vec![1, 0, 2], all.clone()));
    assert_eq!(pairs_of(&of(small.slice(1, 2))).unwrap(), (vec![0, 2], all[1..].to_vec()));
    assert!(pairs_of(&of(StringArray::from(TEXTS.to_vec()))).is_err());
    assert!(pairs_of(&of(Int64Array::from(vec![1]))).is_err());
    let none = ListArray::new_null(Arc::new(Field::new("item", small.value_type(), true)), 2);
    assert_eq!(pairs_of(&of(none)).unwrap(), (vec![0, 0], vec![]));
}

#[test]
fn a_map_is_read_as_the_list_that_it_is() {
    let field = |name, nullable| Arc::new(Field::new(name, DataType::Utf8, nullable));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let fields = Fields::from(vec![field("key", false), field("value", true)]);
    let entries = StructArray::new(fields, vec![Arc::clone(&texts), texts], None);
    let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map = MapArray::new(entry, OffsetBuffer::new(vec![0, 1, 3].into()), entries, None, false);
    let chunk = of(map.slice(1, 1));
    assert_eq!(pairs_of(&chunk).unwrap(), (vec![2], vec![Some(&b"b"[..]), Some(b"c")]));
}

/// It was read as what stood in its columns: a header with an empty name.
#[test]
fn a_pair_that_is_null_has_neither_name_nor_value() {
    let texts = [Some("a"), Some("b"), Some("c")];
    let items = pairs(&texts, Some(vec![true, false, true]));
    let chunk = of(lists(vec![0, 1, 1, 3], items.clone()));
    let (counts, names) = pairs_of(&chunk).unwrap();
    assert_eq!(counts, [1, 0, 2]);
    assert_eq!(names, [Some(&b"a"[..]), None, Some(b"c")]);
    let cut = of(lists(vec![0, 2, 2], items.slice(1, 2)));
    assert_eq!(pairs_of(&cut).unwrap(), (vec![2, 0], vec![None, Some(&b"c"[..])]));
}

#[test]
fn a_row_that_is_null_as_a_whole_is_refused() {
    let rows = |valid| pairs(&[Some("a"), Some("b"), Some("c")], Some(valid));
    let refused = |array: StructArray| take_over(&array.into_data()).err();
    let row = |row| Some(ImportError::NullRow { row });
    assert_eq!(refused(rows(vec![true, true, false])), row(2));
    assert_eq!(refused(rows(vec![true, true, false]).slice(1, 2)), row(1));
    assert_eq!(refused(rows(vec![false, true, true]).slice(1, 2)), None);
    assert_eq!(refused(rows(vec![true, true, true])), None);
}

#[test]
fn numbers_of_each_width_are_read() {
    assert_eq!(numbers(&of(Int8Array::from(vec![1, -1]))), [Some(1), Some(-1)]);
    assert_eq!(numbers(&of(UInt16Array::from(vec![1, 65_535]))), [Some(1), Some(65_535)]);
    let sparse = Int32Array::from(vec![Some(7), None, Some(-7)]);
    assert_eq!(numbers(&of(sparse.slice(1, 2))), [None, Some(-7)]);
    assert_eq!(numbers(&of(UInt64Array::from(vec![1]))), [Some(1)]);
    assert_eq!(numbers(&of(TimestampSecondArray::from(vec![1, 2]))), [Some(1_000), Some(2_000)]);
    assert_eq!(numbers(&of(NullArray::new(1))), [None]);
}

/// Values lie where their maker put them; what it gave away comes back when the chunk goes.
#[test]
fn values_are_not_copied_and_are_released_once() {
    let (values, owner) = kept(b"acc");
    let data = BinaryArray::new(OffsetBuffer::new(vec![0, 1, 3].into()), values, None);
    let chunk = take_over(&struct_of(&[("value", Arc::new(data))], 0, 2)).unwrap();
    let mut out = Vec::new();
    chunk.column("value").unwrap().bytes(&mut out).unwrap();
    assert_eq!(out[1].unwrap().as_ptr(), owner[1..].as_ptr());
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(chunk);
    assert_eq!(Arc::strong_count(&owner), 1);
    let refused = BinaryArray::new(OffsetBuffer::new(vec![0, 1].into()), kept_as(&owner), None);
    assert!(take_over(&struct_of(&[("value", Arc::new(refused))], 0, 2)).is_err());
    assert_eq!(Arc::strong_count(&owner), 1, "what is refused is released too");
}

fn kept_as(owner: &Arc<Vec<u8>>) -> Buffer {
    let start = NonNull::new(owner.as_ptr().cast_mut()).unwrap();
    // SAFETY: the buffer keeps its owner.
    unsafe { Buffer::from_custom_allocation(start, owner.len(), Arc::clone(owner) as _) }
}

#[test]
fn types_that_no_record_is_made_of_are_refused_by_name() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let columns = [("float", floats), ("long", longs), ("text", texts)];
    let chunk = take_over(&struct_of(&columns, 0, 1)).unwrap();
    let column = |name: &str| chunk.column(name).unwrap();
    let error = column("float").bytes(&mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "column `float` has Arrow type float64, expected bytes or text");
    assert!(column("float").numbers(&mut Vec::new()).is_err());
    assert!(column("long").bytes(&mut Vec::new()).is_err());
    let error = column("text").numbers(&mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "column `text` has Arrow type utf8, expected integers or timestamps");
    let beyond = of(UInt64Array::from(vec![u64::MAX]));
    assert!(beyond.column("").unwrap().numbers(&mut Vec::new()).is_err());
}

/// An array that its maker got wrong; whatever buffers it has, they are as it says.
fn wrong(of: DataType, rows: usize, offset: usize, buffers: Vec<Buffer>) -> ArrayData {
    // SAFETY: only the import reads the array, and the import is under test.
    unsafe { ArrayData::builder(of).len(rows).offset(offset).buffers(buffers).build_unchecked() }
}

fn reads(data: &ArrayData) -> Result<usize, ImportError> {
    let chunk = take_over(data)?;
    let mut out = Vec::new();
    chunk.column("").unwrap().bytes(&mut out).map(|()| out.len())
}

#[test]
fn offsets_that_contradict_each_other_are_refused() {
    let binary = |offsets: &[i32]| {
        let buffers = vec![Buffer::from_slice_ref(offsets), Buffer::from(b"abcd")];
        wrong(DataType::Binary, offsets.len() - 1, 0, buffers)
    };
    assert_eq!(reads(&binary(&[0, 2, 4])), Ok(2));
    for offsets in [[4, 1, 4], [0, 4, 1], [-1, 1, 4], [0, 1, -4], [i32::MIN, 0, -1]] {
        assert!(matches!(reads(&binary(&offsets)), Err(ImportError::Invalid(_))), "{offsets:?}");
    }
    let large = vec![Buffer::from_slice_ref([0, i64::MIN]), Buffer::from(b"abcd")];
    assert!(reads(&wrong(DataType::LargeBinary, 1, 0, large)).is_err());
    let lists = lists(vec![0, 1, 1, 2], pairs(&[Some("a"), Some("b")], None)).into_data();
    for ends in [[0, 1, 1, 3], [0, 2, 1, 1], [1, 0, 0, 2], [0, -1, 1, 2]] {
        let lists = lists.clone().into_builder().buffers(vec![Buffer::from_slice_ref(ends)]);
        // SAFETY: only the import reads the array.
        let chunk = take_over(&unsafe { lists.build_unchecked() }).unwrap();
        assert!(pairs_of(&chunk).is_err(), "{ends:?}");
    }
}

#[test]
fn views_and_indices_that_point_nowhere_are_refused() {
    let view = |length: u32, buffer: u32, from: u32| {
        let words = [length, u32::from_le_bytes(*b"abcd"), buffer, from];
        let buffers = vec![Buffer::from_slice_ref(words), Buffer::from(b"abcdefghijklmnop")];
        wrong(DataType::BinaryView, 1, 0, buffers)
    };
    assert_eq!(reads(&view(13, 0, 3)), Ok(1));
    for (length, buffer, from) in [(13, 0, 4), (13, 1, 0), (u32::MAX, 0, 0), (13, 0, u32::MAX)] {
        assert!(reads(&view(length, buffer, from)).is_err(), "{length} {buffer} {from}");
    }
    let of = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    for index in [3, -1] {
        let indices = wrong(of.clone(), 1, 0, vec![Buffer::from_slice_ref([index as i8])]);
        let words = StringArray::from(TEXTS.to_vec()).into_data();
        // SAFETY: only the import reads the array.
        let data = unsafe { indices.into_builder().child_data(vec![words]).build_unchecked() };
        assert!(reads(&data).is_err(), "{index}");
    }
}

#[test]
fn lengths_buffers_and_children_that_cannot_be_are_refused() {
    let negative = usize::MAX;
    let longs = || vec![Buffer::from_slice_ref([1_i64, 2])];
    assert!(take_over(&wrong(DataType::Int64, negative, 0, longs())).is_err());
    assert!(take_over(&wrong(DataType::Int64, 1, negative, longs())).is_err());
    let texts = || Arc::new(StringArray::from(TEXTS.to_vec())) as ArrayRef;
    assert!(take_over(&struct_of(&[("value", texts())], 0, 5)).is_err());
    assert!(take_over(&struct_of(&[("value", texts())], 2, 2)).is_err());
    assert!(take_over(&struct_of(&[("value", texts())], negative, 1)).is_err());
    // As if it were of another type: of fewer buffers, or of other children.
    let foreign = |array: ArrayRef, format: &str, children: Vec<FFI_ArrowSchema>| {
        let schema = FFI_ArrowSchema::try_new(format, children, None).unwrap();
        one(&schema, to_ffi(&array.to_data()).unwrap().0).err()
    };
    let child = || FFI_ArrowSchema::try_new("u", vec![], None).unwrap();
    let pair: ArrayRef = Arc::new(pairs(&[Some("a")], None));
    let cases = [
        foreign(Arc::new(Int64Array::from(vec![1])), "u", vec![]),
        foreign(texts(), "l", vec![]),
        foreign(Arc::new(Int64Array::from(vec![1])), "vu", vec![]),
        foreign(Arc::new(Int64Array::from(vec![1])), "+l", vec![child()]),
        foreign(texts(), "+s", vec![child()]),
        foreign(pair, "+s", vec![child()]),
        foreign(texts(), "+l", vec![]),
    ];
    for (index, refused) in cases.into_iter().enumerate() {
        assert!(matches!(refused, Some(ImportError::Invalid(_))), "{index}: {refused:?}");
    }
}

/// The process was aborted: rows without a value need no memory of their maker.
#[test]
fn more_rows_than_memory_holds_are_refused() {
    let rows = 1 << 47;
    let nulls = || wrong(DataType::Null, rows, 0, vec![]);
    let empty = wrong(DataType::FixedSizeBinary(0), rows, 0, vec![Buffer::from(b"")]);
    let of = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Null));
    let indices = wrong(of, 1, 0, vec![Buffer::from_slice_ref([0_i8])]);
    // SAFETY: only the import reads the array.
    let words = unsafe { indices.into_builder().child_data(vec![nulls()]).build_unchecked() };
    for data in [nulls(), empty, words] {
        assert_eq!(reads(&data), Err(ImportError::Memory { rows }), "{}", data.data_type());
    }
    let refused = take_over(&nulls()).unwrap().column("").unwrap().numbers(&mut Vec::new());
    assert_eq!(refused, Err(ImportError::Memory { rows }));
}

#[test]
fn offsets_that_are_not_aligned_are_refused_and_other_buffers_need_no_alignment() {
    let odd = |bytes: Vec<u8>| Buffer::from_vec([vec![0], bytes].concat()).slice(1);
    let offsets: Vec<u8> = [0_i32, 1, 3].iter().flat_map(|offset| offset.to_ne_bytes()).collect();
    let data = wrong(DataType::Binary, 2, 0, vec![odd(offsets), Buffer::from(b"abb")]);
    assert!(take_over(&data).is_err());
    let longs = odd([5_i64, 6].iter().flat_map(|number| number.to_ne_bytes()).collect());
    let chunk = take_over(&wrong(DataType::Int64, 2, 0, vec![longs])).unwrap();
    assert_eq!(numbers(&chunk), [Some(5), Some(6)]);
}

#[test]
fn what_was_released_is_refused() {
    let schema = || FFI_ArrowSchema::try_from(DataType::Utf8).unwrap();
    assert!(Stream::of_array(&schema(), FFI_ArrowArray::empty()).is_err());
    let array = to_ffi(&StringArray::from(vec!["a"]).into_data()).unwrap().0;
    assert!(Stream::of_array(&FFI_ArrowSchema::empty(), array).is_err());
    assert!(Stream::of_stream(FFI_ArrowArrayStream::empty()).is_err());
}
