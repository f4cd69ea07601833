//! The files of `deploy/`: their validity, their consistency with each other and with the program, and that the series
//! of alerts and dashboard exist.

mod agree;
mod unit;
mod watch;
mod workflows;

use std::path::PathBuf;

/// A file of `deploy/`.
fn read(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
}

/// The lines of a file without comments, white space taken off.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}
