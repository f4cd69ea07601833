//! The program as an operator runs it.

mod client;
mod demo;
mod https;
mod plugin;
mod settings;
