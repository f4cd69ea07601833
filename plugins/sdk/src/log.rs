//! Log lines for the operator, in the server's log under the plugin's name.
//!
//! Never log the content of a record: no names, identifiers or dates of people. The server truncates long messages and
//! drops lines above a rate limit. Outside the sandbox, where logic is tested natively, lines are written to standard
//! error.

use crate::bindings::imports::daftar::plugin::log as generated;

pub use generated::Level;

/// Writes a line at that level.
pub fn write(level: Level, message: &str) {
    if cfg!(target_arch = "wasm32") {
        generated::write(level, message);
    } else {
        eprintln!("{level:?}: {message}");
    }
}

/// Information for debugging.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Information for the operator.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// A problem after which the plugin continues.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// A problem because of which the call fails.
pub fn error(message: &str) {
    write(Level::Error, message);
}
