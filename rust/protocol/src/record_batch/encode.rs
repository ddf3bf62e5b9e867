//! Writes records and their headers as they lie in a batch; see `records` for the bytes.

fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn varlong_length(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)) as u64;
    (64 - (raw | 1).leading_zeros() as usize).div_ceil(7)
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varlong(out, -1),
        Some(bytes) => {
            put_varlong(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

fn nullable_length(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varlong_length(bytes.len() as i64) + bytes.len())
}

/// A few bytes on the stack: what stands between the bytes of a record.
struct Scratch {
    bytes: [u8; 40],
    length: usize,
}

impl Scratch {
    fn new() -> Self {
        Self { bytes: [0; 40], length: 0 }
    }

    #[inline]
    fn put(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    #[inline]
    fn varlong(&mut self, value: i64) {
        let mut raw = ((value << 1) ^ (value >> 63)) as u64;
        while raw >= 0x80 {
            self.put(raw as u8 | 0x80);
            raw >>= 7;
        }
        self.put(raw as u8);
    }

    #[inline]
    fn length_of(&mut self, bytes: Option<&[u8]>) {
        self.varlong(bytes.map_or(-1, |bytes| bytes.len() as i64));
    }

    /// Appends what was put here to `out`, and is empty again.
    #[inline]
    fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.length]);
        self.length = 0;
    }
}

/// Encodes one record at the end of `out`; `headers` is a count and the headers as they lie.
#[inline]
pub fn write_record(
    out: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: (i32, &[u8]),
) {
    let length = 1
        + varlong_length(timestamp_delta)
        + varlong_length(i64::from(offset_delta))
        + nullable_length(key)
        + nullable_length(value)
        + varlong_length(i64::from(headers.0))
        + headers.1.len();
    // A zigzag varint of an i32 has the same bytes as the varlong of the same number.
    let mut scratch = Scratch::new();
    scratch.varlong(length as i64);
    scratch.put(0);
    scratch.varlong(timestamp_delta);
    scratch.varlong(i64::from(offset_delta));
    scratch.length_of(key);
    if let Some(key) = key {
        scratch.flush(out);
        out.extend_from_slice(key);
    }
    scratch.length_of(value);
    scratch.flush(out);
    out.extend_from_slice(value.unwrap_or_default());
    scratch.varlong(i64::from(headers.0));
    scratch.flush(out);
    out.extend_from_slice(headers.1);
}

/// Encodes one header at the end of `out`.
pub fn write_header(out: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    put_nullable(out, Some(key.as_bytes()));
    put_nullable(out, value);
}
