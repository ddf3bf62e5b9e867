//! Arrow's C data interface: columns in and out of this process without a copy, by arrow-rs.
//!
//! `import` reads the columns of other libraries, `export` hands out tables of ours. The crate is a
//! marked room of unsafe code: the interface has pointers without lengths. The maker of an array is
//! trusted that each buffer is as large as its type says. `import` checks everything else that
//! arrow-rs does not check.
//! Source: <https://arrow.apache.org/docs/format/CDataInterface.html> and the stream interface.

#![allow(unsafe_code)]

pub mod export;
pub mod import;

pub use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
pub use arrow_array::ffi_stream::FFI_ArrowArrayStream;
pub use import::{Chunk, Column, ImportError, Stream};
