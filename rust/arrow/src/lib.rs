//! Arrow's C data interface: columns in and out of this process without a copy, and without Arrow's
//! libraries.
//!
//! `ffi` is the three structs as C has them. `import` reads what somebody else made, `export` hands
//! out columns of our own. This crate is
//! a marked room of unsafe code: the interface hands out pointers whose lengths only the schema
//! tells, so whoever makes an array is trusted to make it as its schema says.
//! Source: <https://arrow.apache.org/docs/format/CDataInterface.html> and the stream interface.

#![allow(unsafe_code)]

pub mod export;
pub mod ffi;
pub mod import;

pub use ffi::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub use import::{Chunk, Column, ImportError, Stream};
