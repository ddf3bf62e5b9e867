use super::*;

/// Gives `bytes` to `frames` as a socket would, `most` at a time.
fn feed(frames: &mut Frames, mut bytes: &[u8], most: usize) -> Vec<Result<Bytes, FrameError>> {
    let mut seen = Vec::new();
    while !bytes.is_empty() {
        let space = frames.space();
        let count = bytes.len().min(space.len()).min(most);
        space[..count].copy_from_slice(&bytes[..count]);
        frames.arrived(count);
        bytes = &bytes[count..];
        while let Some(frame) = frames.cut().transpose() {
            let failed = frame.is_err();
            seen.push(frame);
            if failed {
                return seen;
            }
        }
    }
    seen
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes(), body].concat()
}

#[test]
fn responses_are_cut_wherever_reads_end() {
    let bodies: Vec<Vec<u8>> = [4, 5, 100, 20_000, 1_000_000, 7].map(|n| vec![n as u8; n]).into();
    let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
    for most in [1_009, 16 << 10, usize::MAX] {
        let mut frames = Frames::new(1_000_000);
        let seen: Vec<Bytes> = feed(&mut frames, &stream, most)
            .into_iter()
            .map(|frame| frame.expect("valid"))
            .collect();
        assert_eq!(seen, bodies, "{most} at a time");
    }
    let small: Vec<u8> = bodies[..3].iter().flat_map(|body| frame(body)).collect();
    assert_eq!(feed(&mut Frames::new(100), &small, 1).len(), 3);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for size in [-1, i32::MIN, 0, 3] {
        let seen = feed(&mut Frames::new(100), &size.to_be_bytes(), 4);
        assert_eq!(seen, [Err(FrameError::TooSmall { size })]);
    }
    for size in [101, i32::MAX] {
        let seen = feed(&mut Frames::new(100), &size.to_be_bytes(), 4);
        let size = size as usize;
        assert_eq!(seen, [Err(FrameError::TooLarge { size, cap: 100 })]);
    }
}

#[test]
fn a_claim_takes_no_memory_before_its_bytes_arrive() {
    let mut frames = Frames::new(i32::MAX as usize);
    assert!(feed(&mut frames, &i32::MAX.to_be_bytes(), 4).is_empty());
    assert!(frames.space().len() <= STEP_BYTES);
    assert!(frames.memory.capacity() <= 2 * STEP_BYTES);
}
