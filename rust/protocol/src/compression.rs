//! Compression codecs of record batches.
