//! A deterministic simulator of a cluster: one seed, one history.
//!
//! The broker's pure machines run in virtual time, over logs in memory and a network that loses,
//! doubles, delays and damages messages. Brokers and clients crash, stand still and come back. A
//! checker sees every step. Nothing here reads a clock, a socket, a disk or the system's
//! randomness, and nothing runs in parallel: a seed that fails once fails always.
//!
//! What is production and what is a model: `broker` and `controller` say so in their heads.
//! Source: FoundationDB's simulation, TigerBeetle's VOPR.

pub mod broker;
pub mod checker;
pub mod clients;
pub mod controller;
pub mod drift;
pub mod faults;
#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;
pub mod io;
pub mod log;
pub mod message;
pub mod moves;
pub mod planted;
pub mod rng;
pub mod rooms;
pub mod schedule;
pub mod sweep;
pub mod trace;
pub mod world;
