//! Prints a page of the documentation that a table renders: `fields`, the schema of records, or `errors`, the error
//! codes. `cargo xtask fields` runs it.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    let page = match std::env::args().nth(1).as_deref() {
        Some("fields") => daftar_domain::schema::page::page(),
        Some("errors") => daftar_domain::error_code::page(),
        _ => return Err(io::Error::other("name a page: `fields` or `errors`")),
    };
    io::stdout().write_all(page.as_bytes())
}
