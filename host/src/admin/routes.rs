//! Handlers of the admin API.

pub mod client;
pub mod metrics;
pub mod plugin;
pub mod plugin_use;
