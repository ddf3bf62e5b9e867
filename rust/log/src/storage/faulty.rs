//! Faults on command.
