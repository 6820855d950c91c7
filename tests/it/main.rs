//! The one integration binary: laws, conformance, goldens and the command line.

mod architecture;
mod traces;
