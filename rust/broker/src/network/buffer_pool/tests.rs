//! Buffers come back, fit what was asked for, and do not pile up.

use super::*;

#[test]
fn a_buffer_is_as_large_as_asked_and_wastes_at_most_a_fifth() {
    let sizes = (16..=28).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1, 3 << bits]);
    for bytes in sizes {
        let size = buffer_bytes(bytes);
        assert!(size >= bytes, "{bytes}");
        assert!(size <= bytes + bytes / 4 + 1 || size == MIN_BUFFER_BYTES, "{bytes}: {size}");
        assert_eq!(buffer_bytes(size), size, "a class holds its own size");
    }
}

#[test]
fn a_buffer_goes_back_with_the_last_slice_of_it() {
    let pool = BufferPool::new(1 << 20, 1 << 20);
    let mut buffer = BufferPool::take(&pool, 100_000);
    buffer.extend(b"abcdef");
    let mut bytes = buffer.freeze();
    let slice = bytes.split_to(3);
    drop(bytes);
    assert_eq!(pool.unused_bytes(), 0);
    assert_eq!(&slice[..], b"abc");
    drop(slice);
    assert_eq!(pool.unused_bytes(), 112 << 10);
    let again = BufferPool::take(&pool, 112 << 10);
    assert_eq!((pool.unused_bytes(), again.filled().len()), (0, 0));
}

#[test]
fn what_exceeds_the_bound_or_the_largest_class_is_not_kept() {
    let pool = BufferPool::new(200 << 10, 1 << 20);
    let buffers: Vec<_> = (0..5).map(|_| BufferPool::take(&pool, 1)).collect();
    drop(buffers);
    assert_eq!(pool.unused_bytes(), 3 * MIN_BUFFER_BYTES);
    let pool = BufferPool::new(usize::MAX, 1 << 20);
    let huge = BufferPool::take(&pool, MAX_BUFFER_BYTES + 1);
    assert_eq!(huge.size(), MAX_BUFFER_BYTES + 1);
    drop(huge);
    assert_eq!(pool.unused_bytes(), 0);
}

#[test]
fn a_buffer_survives_its_pool() {
    let pool = BufferPool::new(1 << 20, 1 << 20);
    let mut buffer = BufferPool::take(&pool, 10);
    drop(pool);
    buffer.spare(3).copy_from_slice(b"xyz");
    buffer.advance(3);
    assert_eq!(&buffer.freeze()[..], b"xyz");
}

#[test]
fn a_pool_is_tight_while_more_than_plenty_is_in_use() {
    let pool = BufferPool::new(1 << 20, 2 * MIN_BUFFER_BYTES);
    let mut buffers: Vec<_> = (0..2).map(|_| BufferPool::take(&pool, 1)).collect();
    assert!(!pool.is_tight());
    let third = BufferPool::take(&pool, 1).freeze();
    assert!(pool.is_tight());
    drop(third);
    assert!(!pool.is_tight(), "what lies unused is not in use");
    buffers.push(BufferPool::take(&pool, 1));
    assert!(pool.is_tight());
}
