//! Prints the page of the documentation that shows the table of error codes. `cargo xtask fields` runs it.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(daftar_domain::error_code::page().as_bytes())
}
