//! Bodies of the public API.
