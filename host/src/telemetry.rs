//! Structured logs.
//!
//! **Invariant:** no personal data, no token, no secret ever becomes a log field; see `host/docs/LOGGING.md`.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Starts logging to standard error. Does nothing when logging has been started already, as in tests.
pub fn start(config: &LogConfig) {
    let level = match config.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Other crates' details help their authors, not an operator, and may hold data that is not ours to log.
    let filter =
        tracing_subscriber::filter::Targets::new().with_target("daftar", level).with_default(LevelFilter::WARN);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match config.format {
        LogFormat::Text => {
            // Colours are for people at a terminal; in a file they are noise.
            let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
            registry.with(layer.with_ansi(std::io::stderr().is_terminal())).try_init()
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(std::io::stderr)).try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
}
