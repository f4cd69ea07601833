//! Plugins that misbehave, and that the host is not harmed.

mod breaker;
mod common;
mod crash;
mod faults;
pub mod guest;
mod kept_code;
mod library;
mod limits;
mod logs;
mod pack_guest;
mod refusals;
mod rule_guest;
mod rules;
mod trust;
