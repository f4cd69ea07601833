//! Pure types and rules: no input or output, no clock.

pub mod manifest;
