//! Prints the description of the API as the documentation has it: of a server without modules. `cargo xtask fields` runs it.

use std::io::{self, Write};

use daftar_http::api::openapi::document::published;
use daftar_http::api::router::endpoints;

fn main() -> io::Result<()> {
    io::stdout().write_all(published(&endpoints()).as_bytes())
}
