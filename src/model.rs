//! Models: layers, heads, experts and precision, and what follows from them.
