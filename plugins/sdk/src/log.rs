//! Log lines for the operator, in the server's log under the plugin's name.
//!
//! Never log the content of a record: no names, identifiers or dates of people. The server truncates long messages and
//! drops lines above a rate limit. Outside the sandbox, where logic is tested natively, lines are written to standard
//! error.

/// The generated bindings of the imports of every plugin.
#[doc(hidden)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        inline: "
            package daftar:sdk;
            world imports {
                import daftar:plugin/log@0.1.0;
            }
        ",
        generate_all,
    });
}

use self::bindings::daftar::plugin::log as generated;

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

/// Logs the text of each panic from now on, before it ends the call. Call it first in every exported function: each call
/// of a plugin has an instance of its own. A server suppresses the lines of eligibility engines, whose texts may contain
/// data of a caller; `daftar plugin call` and `test` show them.
pub fn report_panics() {
    static IS_SET: std::sync::Once = std::sync::Once::new();
    IS_SET.call_once(|| std::panic::set_hook(Box::new(|panic| error(&panic.to_string()))));
}
