//! The program as an operator runs it.

mod about;
mod before_release;
mod client;
mod config;
mod consent;
mod crash;
mod demo;
mod doctor;
mod eval;
mod failures;
mod https;
mod import;
mod pack;
mod parquet;
mod plugin;
mod program;
mod quickstart;
mod rule_draft;
mod settings;
