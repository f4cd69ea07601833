//! The parts of the support, by noun.

pub mod admin;
pub mod app;
pub mod artifacts;
pub mod client;
pub mod collector;
pub mod contract;
mod dice;
pub mod http;
pub mod model;
pub mod packs;
pub mod postgres;
pub mod power;
pub mod process;
pub mod records;
pub mod script;
pub mod snapshot;
pub mod template;
pub mod token;
pub mod torture;
