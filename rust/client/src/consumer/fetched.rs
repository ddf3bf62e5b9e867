//! What a fetch brought: `buffer` keeps it undecoded for the callers, `decode` makes blocks of
//! records of it on their threads.

pub mod buffer;
pub mod decode;
#[cfg(test)]
mod tests;
