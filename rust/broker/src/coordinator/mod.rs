//! The group coordinator: who is in a group, who reads what, and how far they have come.
//!
//! `group_state` is the classic group protocol, pure. Around it stands a thin shell with one lock
//! per group, and a log of records that brings every group back after a restart.

pub mod group_state;
pub mod member;
mod subscription;
