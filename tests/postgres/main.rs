//! Starts one PostgreSQL server, prints its URL on a line and stops it when standard input is closed: `cargo xtask
//! test` gives all test processes that URL in `DAFTAR_TEST_POSTGRES_URL`.

use std::io::{Read, Write};
use std::process::ExitCode;

use daftar_test_postgres::Server;

fn main() -> ExitCode {
    if !daftar_test_postgres::can_start() {
        eprintln!(
            "error: PostgreSQL or `setpriv` is not on this machine: install Debian's packages `postgresql` and `util-linux`"
        );
        return ExitCode::FAILURE;
    }
    let server = Server::start_for_all();
    let mut output = std::io::stdout();
    let is_reported = writeln!(output, "{}", server.url("postgres")).and_then(|()| output.flush()).is_ok();
    // An error means as much as the end: no process is left that could close it.
    let _is_closed = is_reported && std::io::stdin().read_to_end(&mut Vec::new()).is_ok();
    ExitCode::SUCCESS
}
