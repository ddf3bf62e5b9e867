//! Threads that read in what left the page cache, before a network thread would have to.
