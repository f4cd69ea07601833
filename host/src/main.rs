//! The program: everything is in the library but the digests of the plugins that it was built with, which are known last.

use std::process::ExitCode;

use daftar::cli::Build;

/// 64 hexadecimal digits each, with commas between them. `cargo xtask` writes the file when the plugins are made; before that it
/// is empty, and the program knows none. Included here and nowhere else: when plugins change, the library is not compiled again.
const PINNED_DIGESTS: &str = include_str!(env!("DAFTAR_PINNED_DIGESTS"));

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the sources are, told by `cargo xtask` when it builds a release: a development build would be linked anew with each commit.
/// Read here and nowhere else, for the same reason.
const BUILD: Build = Build { commit: option_env!("DAFTAR_COMMIT"), committed_s: option_env!("DAFTAR_COMMITTED_S") };

fn main() -> ExitCode {
    daftar::cli::main(PINNED_DIGESTS, BUILD)
}
