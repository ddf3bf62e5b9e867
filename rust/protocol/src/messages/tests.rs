use super::*;
use crate::types::Uuid;
use bytes::Bytes;

mod differential;
mod vectors;

/// A random value that a version of its message can carry.
pub trait Sample: Sized {
    fn sample(generator: &mut Generator, version: i16) -> Self;
}

/// SplitMix64: a failing seed replays.
pub struct Generator(pub u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn bool(&mut self) -> bool {
        self.next() & 1 == 1
    }
    pub fn i8(&mut self) -> i8 {
        self.next() as i8
    }
    pub fn i16(&mut self) -> i16 {
        self.next() as i16
    }
    pub fn u16(&mut self) -> u16 {
        self.next() as u16
    }
    pub fn i32(&mut self) -> i32 {
        self.next() as i32
    }
    pub fn i64(&mut self) -> i64 {
        self.next() as i64
    }
    pub fn f64(&mut self) -> f64 {
        self.i32().into()
    }
    pub fn uuid(&mut self) -> Uuid {
        Uuid((u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes())
    }
    pub fn null(&mut self) -> bool {
        self.next().is_multiple_of(4)
    }
    pub fn len(&mut self) -> usize {
        (self.next() % 4) as usize
    }
    pub fn string(&mut self) -> String {
        (0..self.next() % 12)
            .map(|_| ['a', 'Z', '0', '-', 'ß', '語'][(self.next() % 6) as usize])
            .collect()
    }
    pub fn bytes(&mut self) -> Bytes {
        (0..self.next() % 40).map(|_| self.next() as u8).collect()
    }
}

/// Encodes and decodes random values of `T` in each of its versions.
fn round_trip<T: Versioned + Sample + PartialEq + std::fmt::Debug>(seed: u64) {
    for version in T::VERSIONS.min..=T::VERSIONS.max {
        for round in 0..20 {
            let value = T::sample(&mut Generator(seed + round), version);
            let mut writer = Writer::new();
            value.encode(&mut writer, version);
            let bytes = writer.into_bytes();
            let mut reader = Reader::new(bytes.clone());
            let back = T::decode(&mut reader, version)
                .unwrap_or_else(|error| panic!("v{version} of {value:?}: {error}"));
            assert_eq!(back, value, "v{version}");
            assert_eq!(reader.remaining(), 0, "v{version} of {value:?}");
            for cut in 0..bytes.len() {
                // Short input must end in an error or a value, never in a panic.
                let _ = T::decode(&mut Reader::new(bytes.slice(..cut)), version);
            }
        }
    }
}

#[test]
fn every_message_comes_back_as_it_was_written() {
    macro_rules! run {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            round_trip::<$module::$request>(ApiKey::$key as u64 * 1_000);
            round_trip::<$module::$response>(ApiKey::$key as u64 * 1_000 + 1);
        };
    }
    for_each_api!(run);
    macro_rules! record {
        ($module:ident, $name:ident) => {
            round_trip::<$module::$name>(7);
        };
    }
    for_each_record!(record);
}
