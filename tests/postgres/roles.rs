//! The roles of a register, created by the SQL of the documents.

use super::Server;

/// The page with the SQL that creates them.
const PAGE: &str = include_str!("../../host/docs/POSTGRESQL.md");
/// The section of the page.
const SECTION: &str = "## Roles and database";

/// URLs of one database, by role.
#[derive(Debug, Clone)]
pub struct Roles {
    /// The name of the database; the names of the roles begin with it.
    pub database: String,
    /// URL of the role that owns the tables.
    pub owner: String,
    /// URL of the role of servers.
    pub server: String,
    /// URL of a role that may log in and has the rights of the reader of reports.
    pub reader: String,
}

impl Server {
    /// Creates a database and its roles as in host/docs/POSTGRESQL.md, under names of their own. It has no tables yet.
    ///
    /// # Panics
    /// If the page has no such SQL, or PostgreSQL rejects it.
    #[must_use]
    pub fn create_roles(&self) -> Roles {
        let database = self.next_name();
        let named = |sql: &str| {
            let sql = sql.replace("DATABASE daftar", &format!("DATABASE {database}"));
            sql.replace("daftar_", &format!("{database}_"))
        };
        let mut blocks = sql_blocks();
        let of_server = blocks.next().expect("the SQL that creates roles and database");
        // A database is not created in a transaction, as several statements of one call would be.
        for statement in of_server.split_inclusive(';').filter(|statement| statement.contains(';')) {
            self.run_sql("postgres", &named(statement));
        }
        self.run_sql(&database, &named(blocks.next().expect("the SQL that gives rights in the database")));
        let analyst = format!("{database}_analyst");
        self.run_sql("postgres", &format!("CREATE ROLE {analyst} LOGIN; GRANT {database}_reader TO {analyst}"));
        let url = |role: &str| self.url(&database).replacen(&format!("{}@", self.role()), &format!("{role}@"), 1);
        Roles {
            owner: url(&format!("{database}_owner")),
            server: url(&format!("{database}_server")),
            reader: url(&analyst),
            database,
        }
    }
}

/// The blocks of SQL of the section.
fn sql_blocks() -> impl Iterator<Item = &'static str> {
    let section = PAGE.split_once(SECTION).map_or("", |(_, after)| after);
    let section = section.split("\n## ").next().unwrap_or_default();
    section.split("```sql\n").skip(1).filter_map(|block| block.split("```").next())
}
