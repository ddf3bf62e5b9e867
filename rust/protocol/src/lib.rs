//! kafkalite: see ARCHITECTURE.md.
