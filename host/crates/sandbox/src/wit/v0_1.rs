//! Interface version 0.1.0: conversion to domain types.

pub(crate) mod eligibility;
mod eligibility_input;
pub(crate) mod vocabulary;

use tracing::Level;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::pack::daftar::plugin::log as wire;
use crate::sandbox::HostState;

/// Links the import `log`, which writes to the server's log.
///
/// # Errors
/// It is linked already.
pub(crate) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    wire::add_to_linker::<_, HasSelf<_>>(linker, |state| state)
}

impl wire::Host for HostState {
    fn write(&mut self, level: wire::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            wire::Level::Trace => Level::TRACE,
            wire::Level::Debug => Level::DEBUG,
            wire::Level::Info => Level::INFO,
            wire::Level::Warn => Level::WARN,
            wire::Level::Error => Level::ERROR,
        };
        self.write_log(level, &message)
    }
}
