//! The program: everything is in the library but the stamp, which is written into the finished program.

use std::process::ExitCode;

use daftar::cli::Build;

/// Maximum length of the text of the stamp, in bytes.
const TEXT_LENGTH: usize = 16 * 1024;

/// Facts about a program that are known only when it is built: the digests of the plugins that were made with it, and
/// its commit.
///
/// `cargo xtask` finds the mark in the finished program and replaces the text behind it, so that nothing is linked
/// twice. The text consists of lines `name=value` and is filled up with spaces; a program that was built without `cargo
/// xtask` knows neither plugins nor commit.
#[repr(C, align(64))]
struct Stamp {
    mark: [u8; 32],
    text: [u8; TEXT_LENGTH],
}

static STAMP: Stamp = Stamp { mark: *b"daftar stamp 1: 7f3c9a52e8d1b604", text: [b' '; TEXT_LENGTH] };

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The compiler must not take the text that it sees for the one that the program will have.
    let Stamp { mark: _, text } = std::hint::black_box(&STAMP);
    let text = std::str::from_utf8(text).unwrap_or_default();
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once('='));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    let build = Build { commit: value("commit"), committed_s: value("committed_s") };
    daftar::cli::main(value("plugins").unwrap_or_default(), build)
}
