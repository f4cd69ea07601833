//! What this program speaks and stores, for whoever asks which version it is.

pub use crate::api::middleware::answer::API_VERSION;
use crate::plugin;
pub use crate::service::backup::FORMAT as BACKUP_FORMAT;
pub use crate::store::sled::FORMAT_VERSION as STORE_LAYOUT;

/// The machine and system that it was built for, as Rust names them.
pub const TARGET: &str = env!("DAFTAR_TARGET");
/// The compiler that built it.
pub const RUSTC: &str = env!("DAFTAR_RUSTC");
/// The version of the sandbox.
pub const WASMTIME: &str = env!("DAFTAR_WASMTIME");

/// The versions of the plugin interface that it speaks, the newest first: names of WIT packages.
#[must_use]
pub fn plugin_interfaces() -> Vec<String> {
    plugin::spoken_versions().iter().map(|version| format!("daftar:plugin@{version}")).collect()
}
