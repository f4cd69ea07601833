//! A running server, which no test stops.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::AtomicU64;

use super::cluster::AtEnd;
use super::{Server, programs};

/// Variable that names a server on 127.0.0.1: `postgres://<role>@127.0.0.1:<port>/postgres`. The server trusts that
/// role without a password, and the role is a superuser.
const URL: &str = "DAFTAR_TEST_POSTGRES_URL";

/// Drops the databases whose names begin with a word, and then the roles whose names contain it.
const DROP: &str = "printf '%s\\n' \
    \"SELECT format('DROP DATABASE %I WITH (FORCE)', datname) FROM pg_database WHERE starts_with(datname, '$3_') \\\\gexec\" \
    \"SELECT format('DROP ROLE %I', rolname) FROM pg_roles WHERE position('$3_' in rolname) > 0 \\\\gexec\" \
    | \"$1\" --no-psqlrc --quiet \"$2\"";

/// The server that the environment names.
pub(super) fn named() -> Option<Server> {
    let url = std::env::var_os(URL).filter(|url| !url.is_empty())?;
    let parsed = url.to_str().and_then(parse);
    let (role, port) = parsed.unwrap_or_else(|| {
        panic!("`{URL}` is `{}`; it has the form `postgres://<role>@127.0.0.1:<port>/postgres`", url.display())
    });
    // Other processes create databases there at the same time, and one that was killed may have left some.
    let chance = RandomState::new().build_hasher().finish();
    Some(Server {
        programs: programs(),
        role,
        port,
        database_prefix: format!("register_{}_{chance:016x}", std::process::id()),
        databases: AtomicU64::new(0),
        own: None,
    })
}

fn parse(url: &str) -> Option<(String, u16)> {
    let (role, rest) = url.strip_prefix("postgres://")?.split_once('@')?;
    let port = rest.strip_prefix("127.0.0.1:")?.strip_suffix("/postgres")?;
    let is_name = !role.is_empty() && role.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    Some((role.to_owned(), port.parse().ok()?)).filter(|_| is_name)
}

/// Drops what this process creates there, once it has ended.
pub(super) fn drop_databases_at_end(server: &Server) -> AtEnd {
    let psql = server.programs.join("psql");
    AtEnd::run(DROP, &[&psql.to_string_lossy(), &server.url("postgres"), &server.database_prefix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_server_has_one_form() {
        assert_eq!(parse("postgres://daftar@127.0.0.1:5433/postgres"), Some(("daftar".to_owned(), 5_433)));
        for wrong in [
            "postgres://daftar@127.0.0.1/postgres",
            "postgres://daftar@db.example.org:5432/postgres",
            "postgres://daftar:secret@127.0.0.1:5432/postgres",
            "postgres://127.0.0.1:5432/postgres",
            "postgres://daftar@127.0.0.1:5432/other",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    /// Set in the process that creates a database on the server of the test below.
    const URL_OF: &str = "DAFTAR_TEST_POSTGRES_INNER";

    #[test]
    fn databases_and_roles_on_a_server_that_runs_are_dropped_when_the_process_has_ended() {
        let name = "running::tests::databases_and_roles_on_a_server_that_runs_are_dropped_when_the_process_has_ended";
        if std::env::var_os(URL_OF).is_some() {
            let server = Server::shared();
            let url = server.create_database();
            let database = url.rsplit('/').next().expect("a name");
            server.run_sql("postgres", &format!("CREATE ROLE guest_{database} LOGIN"));
            std::process::exit(0);
        }
        let server = Server::start(&[]);
        let left = "SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE 'register%') + \
                    (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'guest%')";
        let mut other = std::process::Command::new(std::env::current_exe().expect("this program"));
        other.args(["--exact", name]).env(URL, server.url("postgres")).env(URL_OF, "1");
        let ended = other.output().expect("this program runs");
        assert!(ended.status.success(), "{ended:?}");
        server.wait_for(&format!("SELECT ({left}) = 0"));
    }
}
