//! Frames come out whole and in order, however the bytes come in; what is held stays bounded.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::request_queue::RoomWaiters;

/// Gives out a stream in chunks of scripted sizes, `WouldBlock` between them.
struct Script {
    bytes: VecDeque<u8>,
    chunks: VecDeque<usize>,
    largest_read: usize,
}

impl Script {
    fn new(bytes: &[u8], chunks: &[usize]) -> Self {
        let bytes = bytes.iter().copied().collect();
        Self { bytes, chunks: chunks.iter().copied().collect(), largest_read: 0 }
    }
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let spare = buffer.len();
        assert!(spare > 0, "a read without room would look like the end");
        self.largest_read = self.largest_read.max(spare);
        if self.bytes.is_empty() {
            return Ok(0);
        }
        let Some(chunk) = self.chunks.front_mut() else {
            self.chunks.push_back(usize::MAX);
            return self.read(buffer);
        };
        if *chunk == 0 {
            self.chunks.pop_front();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = spare.min(*chunk).min(self.bytes.len());
        *chunk -= count;
        for (to, from) in buffer.iter_mut().zip(self.bytes.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }
}

fn room(max_bytes: usize) -> Arc<Room> {
    Room::new(usize::MAX, max_bytes, Arc::new(RoomWaiters::default()))
}

fn pool() -> Arc<BufferPool> {
    BufferPool::new(16 << 20, usize::MAX)
}

fn framed(frames: &[Vec<u8>]) -> Vec<u8> {
    let size = |frame: &Vec<u8>| i32::try_from(frame.len()).expect("a small frame").to_be_bytes();
    frames.iter().flat_map(|frame| [size(frame).to_vec(), frame.clone()].concat()).collect()
}

/// Reads to the end and returns every frame.
fn read_all(source: &mut Script, reader: &mut FrameReader, room: &Arc<Room>) -> Vec<Vec<u8>> {
    read_all_from(source, reader, room, &pool())
}

fn read_all_from(
    source: &mut Script,
    reader: &mut FrameReader,
    room: &Arc<Room>,
    pool: &Arc<BufferPool>,
) -> Vec<Vec<u8>> {
    let mut spare = None;
    let mut frames = Vec::new();
    loop {
        match reader.front() {
            Front::Frame { length, .. } => {
                assert!(!reader.is_half_sent());
                frames.push(reader.take(length).to_vec());
            }
            Front::Large { .. } => assert!(reader.begin_large(room, pool), "there is room"),
            Front::BadSize(size) | Front::Larger { size, .. } => panic!("size {size}"),
            Front::Incomplete => match reader.read(source, pool, &mut spare) {
                Ok(Progress::End) => return frames,
                Ok(Progress::Read { .. }) => {}
                Ok(Progress::NoRoom) => panic!("no room"),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            },
        }
    }
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in(
        lengths in prop::collection::vec(
            prop_oneof![4 => 0usize..300, 2 => 15_000usize..70_000, 1 => 65_000usize..400_000],
            1..12,
        ),
        chunks in prop::collection::vec(
            prop_oneof![1usize..10, 1usize..5_000, 60_000usize..200_000],
            0..40,
        ),
    ) {
        let frames: Vec<Vec<u8>> =
            (0u8..).zip(&lengths).map(|(i, &length)| vec![i; length]).collect();
        let mut source = Script::new(&framed(&frames), &chunks);
        let mut reader = FrameReader::new(1 << 20);
        let room = room(1 << 30);
        let got = read_all(&mut source, &mut reader, &room);
        prop_assert!(got == frames);
        prop_assert_eq!(room.bytes(), 0, "whatever was held is free again");
        prop_assert!(!reader.is_half_sent());
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_before_anything_is_held() {
    let beyond = (100 << 20) + 1;
    for (size, bad) in
        [(-1, true), (i32::MIN, true), (beyond, true), (i32::MAX, true), (1_000, false)]
    {
        let mut reader = FrameReader::new(1_000);
        let mut source = Script::new(&size.to_be_bytes(), &[]);
        reader.read(&mut source, &pool(), &mut None).expect("four bytes");
        assert_eq!(reader.front() == Front::BadSize(size), bad, "{size}");
    }
}

#[test]
fn a_size_above_the_limit_is_judged_by_the_api_and_for_one_frame_alone() {
    let large = [&1_001i32.to_be_bytes()[..], &[0, 3], &[0; 999]].concat();
    let mut source = Script::new(&[large.clone(), large].concat(), &[4, 2]);
    let (mut reader, pool) = (FrameReader::new(1_000), pool());
    let mut read = |reader: &mut FrameReader| drop(reader.read(&mut source, &pool, &mut None));
    read(&mut reader);
    assert_eq!(reader.front(), Front::Incomplete, "nothing says yet whose frame it is");
    (0..2).for_each(|_| read(&mut reader));
    assert_eq!(reader.front(), Front::Larger { size: 1_001, api_key: 3 });
    reader.take_larger();
    (0..4).for_each(|_| read(&mut reader));
    assert_eq!(reader.front(), Front::Frame { length: 1_001, api_key: 3 });
    assert_eq!(reader.take(1_001).len(), 1_001);
    assert_eq!(reader.front(), Front::Larger { size: 1_001, api_key: 3 });
}

#[test]
fn a_peer_that_claims_much_and_sends_little_costs_little() {
    let mut stream = (100i32 << 20).to_be_bytes().to_vec();
    stream.extend([0; 96]);
    let mut source = Script::new(&stream, &[]);
    let mut reader = FrameReader::new(100 << 20);
    let (room, pool) = (room(1 << 30), pool());
    reader.read(&mut source, &pool, &mut None).expect("the beginning");
    assert_eq!(reader.front(), Front::Large { api_key: 0 });
    assert!(reader.begin_large(&room, &pool));
    assert!(room.bytes() <= MIN_BUFFER_BYTES);
    assert!(reader.is_half_sent());
    assert_eq!(reader.arrived(), 100);
}

#[test]
fn a_large_frame_grows_with_what_arrived_and_stops_where_room_ends() {
    let frame = vec![7; 1 << 20];
    let mut source = Script::new(&framed(&[frame]), &[]);
    let mut reader = FrameReader::new(1 << 20);
    let (pool, room) = (pool(), room(300 << 10));
    // Another connection is overdrawn, so no other connection may grow beyond the bound.
    let others = [1 << 20, 300 << 10].map(|bytes| Room::begin(&room, bytes).expect("the first"));
    reader.read(&mut source, &pool, &mut None).expect("the beginning");
    assert!(!reader.begin_large(&room, &pool), "no room");
    drop(others);
    assert!(reader.begin_large(&room, &pool));
    let mut held = Vec::new();
    while reader.is_half_sent() {
        held.push(room.bytes());
        let progress = reader.read(&mut source, &pool, &mut None).expect("more");
        assert_ne!(progress, Progress::NoRoom);
    }
    assert!(held[0] <= 256 << 10, "four times what arrived: {held:?}");
    assert_eq!(reader.front(), Front::Frame { length: 1 << 20, api_key: 0x0707 });
    assert!(room.bytes() >= 1 << 20, "a complete frame that waits is held");
    drop(reader.take(1 << 20));
    assert_eq!(room.bytes(), 0);
}

#[test]
fn nothing_is_kept_of_a_buffer_once_its_frames_are_taken() {
    let mut source = Script::new(&framed(&[vec![1; 20_000], vec![2; 10]]), &[]);
    let mut reader = FrameReader::new(1 << 20);
    let pool = pool();
    reader.read(&mut source, &pool, &mut None).expect("both frames");
    let first = reader.take(20_000);
    let second = reader.take(10);
    assert_eq!((first.len(), &second[..]), (20_000, &[2; 10][..]));
    drop(first);
    assert_eq!(pool.unused_bytes(), 0, "the second frame still needs the buffer");
    drop(second);
    assert_eq!(pool.unused_bytes(), MIN_BUFFER_BYTES, "the reader pins nothing");
}

#[test]
fn while_buffers_are_short_a_connection_gets_little_and_still_gets_on() {
    let frames = vec![vec![1; 50_000], vec![2; 100_000], vec![3; 7]];
    let stream = framed(&frames);
    let mut source = Script::new(&stream, &[]);
    let mut reader = FrameReader::new(1 << 20);
    let (pool, mut spare) = (BufferPool::new(16 << 20, 0), None);
    // Keeps the pool tight whatever the reader does.
    let _in_use = BufferPool::take(&pool, 1);
    reader.read(&mut source, &pool, &mut spare).expect("the beginning");
    assert_eq!(reader.arrived(), TIGHT_READ_BYTES);
    let mut source = Script::new(&stream, &[]);
    let got = read_all_from(&mut source, &mut FrameReader::new(1 << 20), &room(1 << 30), &pool);
    assert!(got == frames);
}
