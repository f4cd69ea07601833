//! daftar

pub mod domain;
pub mod plugin;
