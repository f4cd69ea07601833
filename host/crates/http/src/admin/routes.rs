//! Handlers of the admin API.

pub mod audit;
pub mod backup;
pub mod checkup;
pub mod client;
pub mod consent;
pub mod deployment;
pub mod eligibility;
pub mod export;
pub mod import;
pub mod plugin;
pub mod program;
pub mod signing_key;
