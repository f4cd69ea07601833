//! The program: everything is in the library but the digests of the plugins that it was built with, which are known last.

use std::process::ExitCode;

/// 64 hexadecimal digits each, with commas between them. `cargo xtask build` and `cargo xtask dist` set it when the plugins are
/// made; a program built without it knows none.
const PINNED_DIGESTS: Option<&str> = option_env!("DAFTAR_PINNED_DIGESTS");

fn main() -> ExitCode {
    daftar::cli::main(PINNED_DIGESTS.unwrap_or_default())
}
