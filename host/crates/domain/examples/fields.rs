//! Prints the page of the documentation that shows the schema of records. `cargo xtask fields` runs it.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(daftar_domain::schema::page::page().as_bytes())
}
