use super::*;
use crate::types::Uuid;

fn reader(bytes: &[u8]) -> Reader {
    Reader::new(Bytes::copy_from_slice(bytes))
}

#[test]
fn varints_are_those_of_kafka() {
    for (value, bytes) in [
        (0, &[0x00_u8][..]),
        (-1, &[0x01]),
        (1, &[0x02]),
        (63, &[0x7e]),
        (-64, &[0x7f]),
        (64, &[0x80, 0x01]),
        (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
    ] {
        let mut writer = Writer::new();
        writer.varint(value);
        assert_eq!(&writer.into_bytes()[..], bytes, "{value}");
        assert_eq!(reader(bytes).varint(), Ok(value));
    }
}

#[test]
fn a_varint_that_does_not_end_is_refused() {
    assert_eq!(reader(&[0xff; 12]).unsigned_varint(), Err(DecodeError::InvalidVarint));
}

#[test]
fn a_count_beyond_the_frame_is_refused_before_memory_is_taken() {
    let mut claimed = i32::MAX.to_be_bytes().to_vec();
    claimed.push(1);
    assert_eq!(
        reader(&claimed).array_len(false),
        Err(DecodeError::UnexpectedEnd { needed: i32::MAX as usize, remaining: 1 })
    );
}

#[test]
fn lengths_below_null_and_null_where_it_is_not_allowed_are_refused() {
    for bytes in [[0xff, 0xff], [0xff, 0xfe], [0x80, 0x00]] {
        assert!(matches!(reader(&bytes).string(false), Err(DecodeError::InvalidLength { .. })));
    }
    assert_eq!(reader(&[0xff, 0xff]).nullable_string(false, true), Ok(None));
}

#[test]
fn a_uuid_takes_sixteen_bytes() {
    assert_eq!(reader(&[7; 16]).uuid(), Ok(Uuid([7; 16])));
    assert!(reader(&[7; 15]).uuid().is_err());
}

#[test]
fn records_of_files_leave_a_gap_in_the_frame() {
    let mut writer = Writer::new();
    writer.i32(0);
    writer.records(&Records::External { token: 3, len: 100 }, false);
    writer.i8(9);
    writer.patch_size();
    assert_eq!(writer.len(), 109);
    assert_eq!(
        writer.into_pieces(),
        [
            WirePiece::Mem(Bytes::from_static(&[0, 0, 0, 105, 0, 0, 0, 100])),
            WirePiece::External { token: 3, len: 100 },
            WirePiece::Mem(Bytes::from_static(&[9])),
        ]
    );
}

#[test]
fn all_arrays_of_a_frame_draw_on_one_account() {
    // Two tagged fields, each with an array that takes a little more than half of the account.
    let count = MAX_MEMORY_BYTES / 2 / size_of::<[u64; 8]>() + 1;
    let mut writer = Writer::new();
    writer.unsigned_varint(2);
    for tag in 0..2 {
        writer.tagged(tag, |w| {
            w.array_len(count, true);
            w.raw(&vec![0; count]);
        });
    }
    let mut reader = Reader::new(writer.into_bytes());
    let mut read = 0;
    let outcome = reader.tags(|_, r| {
        let count = r.array_len(true)?;
        r.elements(count, |r| r.i8().map(|_| [0_u64; 8]))?;
        read += 1;
        Ok(())
    });
    assert_eq!((outcome, read), (Err(DecodeError::TooMuchMemory), 1));
}

#[test]
fn a_count_that_costs_more_than_the_account_is_refused_before_memory_is_taken() {
    let count = MAX_MEMORY_BYTES / 8;
    let mut reader = Reader::new(Bytes::from(vec![0; count]));
    let elements = reader.elements(count, |_| -> Result<u64, _> { panic!("nothing is read") });
    assert_eq!(elements, Err(DecodeError::TooMuchMemory));
}

#[test]
fn all_arrays_of_a_request_together_have_a_bounded_number_of_elements() {
    let half = MAX_REQUEST_ELEMENTS / 2;
    for (count, outcome) in [(half, None), (half + 1, Some(DecodeError::TooManyElements))] {
        let bytes = Bytes::from(vec![0; 2 * count]);
        let two = |mut reader: Reader| {
            reader.elements(count, Reader::i8)?;
            reader.elements(count, Reader::i8)
        };
        assert_eq!(two(Reader::of_request(bytes.clone())).err(), outcome);
        assert!(two(Reader::new(bytes)).is_ok(), "an answer may have more");
    }
}

#[test]
fn a_tagged_field_ends_where_its_size_says() {
    let mut writer = Writer::new();
    writer.unsigned_varint(3);
    writer.tagged(0, |w| w.i32(5));
    writer.tagged(1, |w| w.raw(&[7; 300]));
    writer.tagged(2, |w| w.i8(9));
    writer.i8(11);
    let mut reader = Reader::new(writer.into_bytes());
    let mut seen = Vec::new();
    let read = |tag, r: &mut Reader| {
        let size = r.remaining();
        seen.push((tag, size, r.i8()?));
        if tag == 0 {
            assert!(r.i64().is_err(), "the next field's bytes are out of reach");
        }
        Ok(())
    };
    assert_eq!(reader.tags(read), Ok(()));
    assert_eq!(seen, [(0, 4, 0), (1, 300, 7), (2, 1, 9)]);
    assert_eq!(reader.i8(), Ok(11));
    assert_eq!(reader.remaining(), 0);
}

#[test]
fn strings_are_as_long_as_kafka_lets_them_be() {
    for flexible in [false, true] {
        let mut writer = Writer::new();
        // 3 bytes a letter: the cut must not go through one.
        writer.string(&"語".repeat(20_000), flexible);
        let text = Reader::new(writer.into_bytes()).string(flexible).expect("a string");
        assert_eq!(text.len(), 32_766, "flexible {flexible}");
    }
    let mut writer = Writer::new();
    writer.bytes(&[b'a'; MAX_STRING_BYTES + 1], true);
    let refused = Reader::new(writer.into_bytes()).string(true);
    assert_eq!(refused, Err(DecodeError::InvalidLength { length: 32_768 }));
}
