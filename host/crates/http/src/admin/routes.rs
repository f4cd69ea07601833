//! Handlers of the admin API.

pub mod audit;
pub mod backup;
pub mod checkup;
pub mod client;
pub mod concept_group;
pub mod consent;
pub mod eligibility;
pub mod export;
pub mod identifier_system;
pub mod import;
pub mod local_code;
pub mod metrics;
pub mod plugin;
pub mod plugin_use;
pub mod program;
pub mod signing_key;
pub mod upgrade_report;
pub mod verification;
pub mod workbench;
