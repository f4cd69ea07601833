//! The program as an operator runs it.

mod client;
mod consent;
mod crash;
mod demo;
mod eval;
mod https;
mod import;
mod pack;
mod plugin;
mod program;
mod quickstart;
mod settings;
