//! The run: the loop that owns clock, queue and random streams.
