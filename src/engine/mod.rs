//! One engine replica.
