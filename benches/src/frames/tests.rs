use super::{BATCH_HEADER_BYTES, batch_crc, i32_at, produce, record_batch};

#[test]
fn a_record_batch_has_about_the_size_asked_for_and_a_right_checksum() {
    for (batch_bytes, record_bytes) in
        [(0, 0), (200, 100), (1024, 1000), (16_384, 1000), (1 << 20, 100)]
    {
        let (batch, count) = record_batch(batch_bytes, record_bytes, 1);
        assert_eq!(i32_at(&batch, 8), Some(batch.len() as i32 - 12));
        assert_eq!(i32_at(&batch, 17).map(i32::cast_unsigned), Some(batch_crc(&batch)));
        assert_eq!(i32_at(&batch, 57), Some(count));
        assert_eq!(i32_at(&batch, 23), Some(count - 1));
        if batch_bytes > BATCH_HEADER_BYTES + 64 {
            assert!(batch.len().abs_diff(batch_bytes) <= 8, "{batch_bytes}: {}", batch.len());
        }
    }
}

#[test]
fn a_produce_frame_begins_with_its_length_and_ends_with_its_batch() {
    let (batch, _) = record_batch(500, 100, 1);
    let frame = produce(7, "topic", 2, -1, &batch);
    assert_eq!(i32_at(&frame, 0), Some(frame.len() as i32 - 4));
    assert_eq!(i32_at(&frame, 8), Some(7));
    assert!(frame.ends_with(&batch));
}
