//! The sandbox: everything that knows WebAssembly.
//!
//! **Invariant:** this is the only module that names wasmtime; everyone else sees traits over domain types.

mod bindings;
mod engine;
mod fault;
mod limits;
pub mod pack;
mod sandbox;
mod stats;
mod wit;
