//! Interface version 0.1.0: the imports of every plugin.

use tracing::Level;
use wasmtime::component::{HasSelf, Linker};

pub use self::generated::daftar::plugin::log;
use crate::sandbox::HostState;

mod generated {
    wasmtime::component::bindgen!({
        path: "../../../wit/daftar-plugin/0.1.0",
        inline: "package daftar:host; world imports { import daftar:plugin/log@0.1.0; }",
        imports: { default: trappable },
    });
}

/// Links the import `log`, which writes to the server's log.
///
/// # Errors
/// It is linked already.
pub(crate) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    log::add_to_linker::<_, HasSelf<_>>(linker, |state| state)
}

impl log::Host for HostState {
    fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Trace => Level::TRACE,
            log::Level::Debug => Level::DEBUG,
            log::Level::Info => Level::INFO,
            log::Level::Warn => Level::WARN,
            log::Level::Error => Level::ERROR,
        };
        self.write_log(level, &message)
    }
}
