//! Plugins: the only module that names wasmtime.

pub mod pack;
