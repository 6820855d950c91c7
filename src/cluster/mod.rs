//! Instances behind a router.
