//! The targets in crates that use the sandbox.

#![no_main]

mod selected;

libfuzzer_sys::fuzz_target!(|input: &[u8]| selected::check(input));
