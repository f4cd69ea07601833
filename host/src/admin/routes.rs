//! Handlers of the admin API.

pub mod client;
pub mod plugin;
