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
    assert_eq!(reader(&[0xff; 12]).varlong(), Err(DecodeError::InvalidVarint));
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
