#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::ffi::{CString, c_void};

use super::*;

thread_local! {
    /// Structs that this test made and nobody released.
    static LIVE: Cell<i32> = const { Cell::new(0) };
}

fn count(change: i32) {
    LIVE.with(|live| live.set(live.get() + change));
}

/// What a maker keeps until its array is released.
struct Kept {
    _bytes: Vec<Vec<u8>>,
    _pointers: Vec<*const c_void>,
    _children: Vec<*mut ArrowArray>,
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: made by `array` below.
    let array = unsafe { &mut *array };
    let kept = unsafe { Box::from_raw(array.private_data.cast::<Kept>()) };
    for child in &kept._children {
        drop(unsafe { Box::from_raw(*child) });
    }
    array.release = None;
    count(-1);
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: made by `schema` below.
    let schema = unsafe { &mut *schema };
    drop(unsafe { CString::from_raw(schema.format.cast_mut()) });
    drop(unsafe { CString::from_raw(schema.name.cast_mut()) });
    if !schema.children.is_null() {
        let count = schema.n_children as usize;
        let children =
            unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(schema.children, count)) };
        for child in &children {
            drop(unsafe { Box::from_raw(*child) });
        }
    }
    if !schema.dictionary.is_null() {
        drop(unsafe { Box::from_raw(schema.dictionary) });
    }
    schema.release = None;
    count(-1);
}

fn schema(format: &str, name: &str, children: Vec<ArrowSchema>) -> ArrowSchema {
    count(1);
    let children: Box<[_]> =
        children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    ArrowSchema {
        format: CString::new(format).unwrap().into_raw(),
        name: CString::new(name).unwrap().into_raw(),
        n_children: children.len() as i64,
        children: Box::into_raw(children).cast(),
        release: Some(release_schema),
        ..ArrowSchema::empty()
    }
}

/// An array with these buffers; an empty one is null.
fn array(rows: i64, offset: i64, buffers: Vec<Vec<u8>>, children: Vec<ArrowArray>) -> ArrowArray {
    count(1);
    let mut pointers: Vec<*const c_void> = buffers
        .iter()
        .map(|bytes| if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast() })
        .collect();
    let mut children: Vec<_> =
        children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    ArrowArray {
        length: rows,
        null_count: -1,
        offset,
        n_buffers: pointers.len() as i64,
        n_children: children.len() as i64,
        buffers: pointers.as_mut_ptr(),
        children: children.as_mut_ptr(),
        private_data: Box::into_raw(Box::new(Kept {
            _bytes: buffers,
            _pointers: pointers,
            _children: children,
        }))
        .cast(),
        release: Some(release_array),
        ..ArrowArray::empty()
    }
}

fn i32s(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn i64s(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// "a", null, "ccc".
fn texts(offset: i64, rows: i64) -> ArrowArray {
    let buffers = vec![vec![0b101], i32s(&[0, 1, 1, 4]), b"accc".to_vec()];
    array(rows, offset, buffers, Vec::new())
}

fn one(mut schema: ArrowSchema, mut array: ArrowArray) -> Result<Chunk, ImportError> {
    // SAFETY: both were made above.
    let mut stream = unsafe { Stream::of_array(&mut schema, &mut array) };
    let chunk = stream.next_chunk()?.unwrap();
    assert!(stream.next_chunk()?.is_none());
    Ok(chunk)
}

fn bytes(chunk: &Chunk, name: &str) -> Vec<Option<String>> {
    let mut out = Vec::new();
    chunk.column(name).unwrap().bytes(&mut out).unwrap();
    out.iter().map(|value| value.map(|v| String::from_utf8(v.to_vec()).unwrap())).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| (*text != "-").then(|| (*text).to_owned())).collect()
}

#[test]
fn bytes_and_texts_are_read_in_each_of_their_forms() {
    let large = vec![vec![0b101], i64s(&[0, 1, 1, 4]), b"accc".to_vec()];
    let fixed = vec![Vec::new(), b"abbccdd".to_vec()];
    let cases = [
        ("u", texts(0, 3), some(&["a", "-", "ccc"])),
        ("z", texts(1, 2), some(&["-", "ccc"])),
        ("U", array(3, 0, large, Vec::new()), some(&["a", "-", "ccc"])),
        ("w:2", array(2, 1, fixed, Vec::new()), some(&["bc", "cd"])),
        ("n", array(2, 0, Vec::new(), Vec::new()), some(&["-", "-"])),
    ];
    for (format, array, expected) in cases {
        let chunk = one(schema(format, "", Vec::new()), array).unwrap();
        assert!(!chunk.has_columns());
        assert_eq!(bytes(&chunk, "anything"), expected, "{format}");
    }
}

#[test]
fn views_are_read_from_themselves_or_from_their_buffer() {
    let mut views = Vec::new();
    views.extend_from_slice(&i32s(&[3]));
    views.extend_from_slice(b"abc\0\0\0\0\0\0\0\0\0");
    views.extend_from_slice(&i32s(&[14]));
    views.extend_from_slice(b"long");
    views.extend_from_slice(&i32s(&[0, 2]));
    let buffers = vec![Vec::new(), views, b"..long enough 14..".to_vec(), i64s(&[18])];
    let chunk = one(schema("vu", "", Vec::new()), array(2, 0, buffers, Vec::new())).unwrap();
    assert_eq!(bytes(&chunk, ""), some(&["abc", "long enough 14"]));
}

#[test]
fn a_struct_has_columns_by_name_and_its_offset_is_theirs() {
    let times = array(3, 0, vec![Vec::new(), i64s(&[1_999, 2_000, -1])], Vec::new());
    let parent = array(2, 1, vec![Vec::new()], vec![texts(0, 3), times]);
    let of = vec![schema("u", "key", Vec::new()), schema("tsu:UTC", "timestamp", Vec::new())];
    let chunk = one(schema("+s", "", of), parent).unwrap();
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
    let lists = array(3, 0, Vec::new(), Vec::new());
    let parent = array(3, 0, vec![Vec::new()], vec![texts(0, 3), lists]);
    let of = vec![schema("u", "value", Vec::new()), schema("+w:3", "headers", Vec::new())];
    let chunk = one(schema("+s", "", of), parent).unwrap();
    assert_eq!(bytes(&chunk, "value").len(), 3);
    let headers = chunk.column("headers").unwrap();
    assert!(headers.bytes(&mut Vec::new()).is_err());
    assert!(headers.numbers(&mut Vec::new()).is_err());
}

/// Gives rows that are 2, 0, null, 0 of a dictionary to `see`.
fn with_dictionary(mut of_values: ArrowSchema, mut values: ArrowArray, see: impl Fn(&Chunk)) {
    let mut array = array(4, 0, vec![vec![0b1011], vec![2, 0, 9, 0]], Vec::new());
    let mut of = schema("C", "", Vec::new());
    of.dictionary = Box::into_raw(Box::new(of_values.take()));
    let values = Box::into_raw(Box::new(values.take()));
    array.dictionary = values;
    see(&one(of, array).unwrap());
    // SAFETY: made here; `release_array` knows nothing of dictionaries.
    drop(unsafe { Box::from_raw(values) });
}

#[test]
fn a_dictionary_is_looked_up() {
    with_dictionary(schema("u", "", Vec::new()), texts(0, 3), |chunk| {
        assert_eq!(bytes(chunk, ""), some(&["ccc", "a", "-", "a"]));
    });
}

#[test]
fn a_dictionary_of_numbers_is_looked_up_and_its_indices_are_no_numbers() {
    let times = array(3, 0, vec![Vec::new(), i64s(&[7_000, 8_000, 9_000])], Vec::new());
    with_dictionary(schema("tsu:", "", Vec::new()), times, |chunk| {
        let mut numbers = Vec::new();
        chunk.column("").unwrap().numbers(&mut numbers).unwrap();
        assert_eq!(numbers, [Some(9), Some(7), None, Some(7)]);
    });
}

#[test]
fn lists_of_pairs_are_read_row_by_row() {
    let pairs = || {
        let of = vec![schema("u", "key", Vec::new()), schema("z", "value", Vec::new())];
        schema("+s", "entries", of)
    };
    for (format, offset, expected) in [("+l", 0, vec![1, 0, 2]), ("+m", 1, vec![0, 2])] {
        let items = array(3, 0, vec![Vec::new()], vec![texts(0, 3), texts(0, 3)]);
        let lists = vec![vec![0b101], i32s(&[0, 1, 1, 3])];
        let lists = array(3 - offset, offset, lists, vec![items]);
        let chunk = one(schema(format, "headers", vec![pairs()]), lists).unwrap();
        let (mut counts, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
        chunk.column("").unwrap().pairs(&mut counts, &mut names, &mut values).unwrap();
        assert_eq!(counts, expected);
        assert_eq!(names, values);
        assert_eq!(*names.last().unwrap(), Some(&b"ccc"[..]));
        assert_eq!(names.len(), expected.iter().sum::<usize>());
    }
    let chunk = one(schema("u", "", Vec::new()), texts(0, 3)).unwrap();
    let (mut counts, mut none) = (Vec::new(), (Vec::new(), Vec::new()));
    assert!(chunk.column("").unwrap().pairs(&mut counts, &mut none.0, &mut none.1).is_err());
}

/// It was read as what stood in its columns: a header with an empty name.
#[test]
fn a_pair_that_is_null_has_neither_name_nor_value() {
    let of = vec![schema("u", "key", Vec::new()), schema("z", "value", Vec::new())];
    let full = || array(3, 0, vec![Vec::new(), i32s(&[0, 1, 2, 3]), b"abc".to_vec()], Vec::new());
    let items = array(3, 0, vec![vec![0b101]], vec![full(), full()]);
    let lists = array(2, 0, vec![Vec::new(), i32s(&[0, 1, 3])], vec![items]);
    let shape = schema("+l", "headers", vec![schema("+s", "entries", of)]);
    let chunk = one(shape, lists).unwrap();
    let (mut counts, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    chunk.column("").unwrap().pairs(&mut counts, &mut names, &mut values).unwrap();
    assert_eq!(counts, [1, 2]);
    assert_eq!(names, [Some(&b"a"[..]), None, Some(&b"c"[..])]);
    assert_eq!(values, names);
}

#[test]
fn what_was_taken_over_is_released_once() {
    let of = schema("+s", "", vec![schema("u", "key", Vec::new())]);
    let chunk = one(of, array(3, 0, vec![Vec::new()], vec![texts(0, 3)])).unwrap();
    assert_eq!(LIVE.with(Cell::get), 4);
    drop(chunk);
    assert_eq!(LIVE.with(Cell::get), 0);
}

#[test]
fn numbers_of_each_width_are_read() {
    let cases: [(&str, Vec<u8>, [i64; 2]); 4] = [
        ("c", vec![1, 0xff], [1, -1]),
        ("S", vec![1, 0, 0xff, 0xff], [1, 65_535]),
        ("i", i32s(&[7, -7]), [7, -7]),
        ("tss:", i64s(&[1, 2]), [1_000, 2_000]),
    ];
    for (format, data, expected) in cases {
        let array = array(2, 0, vec![Vec::new(), data], Vec::new());
        let chunk = one(schema(format, "", Vec::new()), array).unwrap();
        let mut numbers = Vec::new();
        chunk.column("").unwrap().numbers(&mut numbers).unwrap();
        assert_eq!(numbers, expected.map(Some), "{format}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let data = || vec![Vec::new(), i64s(&[1, 2])];
    let float = one(schema("g", "x", Vec::new()), array(2, 0, data(), Vec::new())).unwrap();
    let error = float.column("").unwrap().bytes(&mut Vec::new()).unwrap_err();
    assert!(
        error.to_string().starts_with("column `x` has Arrow type float64, expected"),
        "{error}"
    );
    assert!(float.column("").unwrap().numbers(&mut Vec::new()).is_err());
    let number = one(schema("l", "x", Vec::new()), array(2, 0, data(), Vec::new())).unwrap();
    assert!(number.column("").unwrap().bytes(&mut Vec::new()).is_err());
    assert!(one(schema("l", "", Vec::new()), array(-1, 0, data(), Vec::new())).is_err());
    assert!(one(schema("u", "", Vec::new()), array(1, 0, data(), Vec::new())).is_err());
    let backwards = vec![Vec::new(), i32s(&[4, 1]), b"abcd".to_vec()];
    let chunk = one(schema("u", "", Vec::new()), array(1, 0, backwards, Vec::new())).unwrap();
    assert!(chunk.column("").unwrap().bytes(&mut Vec::new()).is_err());
    let short = array(5, 0, vec![Vec::new()], vec![texts(0, 3)]);
    assert!(one(schema("+s", "", vec![schema("u", "a", Vec::new())]), short).is_err());
}
