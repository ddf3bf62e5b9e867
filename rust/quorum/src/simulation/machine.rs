//! The state of a simulated voter: a hash of all records, which the checker compares.

use super::checker::Checker;
use crate::state_machine::{MakeBytes, StateMachine};
use crate::types::{Committed, State};
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes of a state beside its hash, so that a snapshot takes several messages.
const PADDING: usize = 3_000;

pub struct ChainMachine {
    chain: u64,
    checker: Arc<Mutex<Checker>>,
}

impl ChainMachine {
    pub fn new(checker: Arc<Mutex<Checker>>) -> Self {
        Self { chain: 0, checker }
    }

    /// The bytes of the state that every cluster begins with.
    pub fn first() -> State {
        State { end: 0, bytes: bytes_of(0).into() }
    }
}

fn bytes_of(chain: u64) -> Vec<u8> {
    let mut bytes = chain.to_be_bytes().to_vec();
    bytes.resize(8 + PADDING, chain as u8);
    bytes
}

impl StateMachine for ChainMachine {
    fn apply(&mut self, committed: Committed) -> Result<(), String> {
        self.chain = self.checker.lock().applied(self.chain, &committed);
        Ok(())
    }

    fn snapshot(&self) -> MakeBytes {
        let chain = self.chain;
        Box::new(move || bytes_of(chain))
    }

    fn restore(&mut self, state: &State) -> Result<(), String> {
        let head = state.bytes.get(..8).and_then(|head| head.try_into().ok());
        self.chain = u64::from_be_bytes(head.ok_or("a state without a hash")?);
        if state.bytes[..] != bytes_of(self.chain) {
            return Err("not the bytes of a state".to_owned());
        }
        if state.end > 0 {
            self.checker.lock().reached(state.end, self.chain);
        }
        Ok(())
    }
}
