//! What this program speaks and stores, for whoever asks which version it is.

pub use daftar_http::api::middleware::answer::API_VERSION;
pub use daftar_service::backup::FORMAT as BACKUP_FORMAT;
pub use daftar_store_sled::FORMAT_VERSION as STORE_LAYOUT;

/// The machine and system that it was built for, as Rust names them.
pub const TARGET: &str = env!("DAFTAR_TARGET");
/// The compiler that built it.
pub const RUSTC: &str = env!("DAFTAR_RUSTC");
/// The version of the sandbox.
pub const WASMTIME: &str = env!("DAFTAR_WASMTIME");

/// The versions of the plugin interface that it speaks, the newest first: names of WIT packages.
#[must_use]
pub fn plugin_interfaces() -> Vec<String> {
    daftar_sandbox::spoken_versions().iter().map(|version| format!("daftar:plugin@{version}")).collect()
}
