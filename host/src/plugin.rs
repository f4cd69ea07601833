//! The sandbox: everything that knows WebAssembly.
//!
//! **Invariant:** this is the only module that names wasmtime; everyone else sees traits over domain types.

pub mod pack;
