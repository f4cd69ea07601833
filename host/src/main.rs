//! The program: all code is in the library except the stamp, which is written into the built binary.

use std::process::ExitCode;

use daftar::cli::Build;

/// Maximum length of the text of the stamp, in bytes.
const TEXT_LENGTH: usize = 16 * 1024;

/// Facts about a program that are known only after it is built: the digests of the plugins built with it, and its
/// commit.
///
/// `cargo xtask` finds the marker in the built binary and replaces the text after it, so that nothing is linked twice.
/// The text consists of lines `name=value` and is padded with spaces; a program built without `cargo xtask` has neither
/// plugin digests nor a commit.
#[repr(C, align(64))]
struct Stamp {
    mark: [u8; 32],
    text: [u8; TEXT_LENGTH],
}

static STAMP: Stamp = Stamp { mark: *b"daftar stamp 1: 7f3c9a52e8d1b604", text: [b' '; TEXT_LENGTH] };

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The compiler must not inline the placeholder text, which is replaced in the built binary.
    let Stamp { mark: _, text } = std::hint::black_box(&STAMP);
    let text = std::str::from_utf8(text).unwrap_or_default();
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once('='));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    let build = Build { commit: value("commit"), committed_s: value("committed_s") };
    daftar::cli::main(value("plugins").unwrap_or_default(), build)
}
