//! Plugins that misbehave, and that the host is not harmed.

mod breaker;
mod crash;
mod faults;
mod kept_code;
mod library;
mod limits;
mod logs;
mod refusals;
mod rules;
mod trust;
