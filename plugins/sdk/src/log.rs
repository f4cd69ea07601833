//! Lines for the operator, in the server's log under the plugin's name.
//!
//! Never write what a record holds: no names, identifiers or dates of people. The server shortens long messages and drops
//! what comes too fast. Outside the sandbox, where logic is tested natively, lines go to the standard error.

use crate::bindings::imports::daftar::plugin::log as generated;

pub use generated::Level;

/// Writes a line of that level.
pub fn write(level: Level, message: &str) {
    if cfg!(target_arch = "wasm32") {
        generated::write(level, message);
    } else {
        eprintln!("{level:?}: {message}");
    }
}

/// What helps to find a mistake.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// What is worth knowing.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Something is wrong and the plugin goes on.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Something is wrong and the call fails for it.
pub fn error(message: &str) {
    write(Level::Error, message);
}
