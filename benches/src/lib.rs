//! What the benchmark programs share: syscalls, Kafka frames, figures.
//!
//! - `echo`: raw epoll, mio and tokio answering the same small requests (ADR 0050);
//! - `ceiling`: the smallest server that does a broker's work, so that every gate is a ratio;
//! - `load`: the load generator for `ceiling` and for any Kafka broker.

pub mod args;
pub mod cpu;
pub mod figures;
pub mod frames;
pub mod mailbox;
pub mod sys;
