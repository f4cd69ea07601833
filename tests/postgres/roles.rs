//! The roles of a register, created by the SQL of the documents.

use super::Server;

/// The page that describes settings and roles.
pub const SETUP: &str = include_str!("../../host/docs/POSTGRESQL.md");
/// The page for database administrators.
pub const OPERATIONS: &str = include_str!("../../host/docs/POSTGRESQL-OPERATIONS.md");
/// The section of [`SETUP`] that creates roles and database.
pub const ROLES: &str = "## Roles and database";

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
        let mut blocks = sql_blocks(SETUP, ROLES);
        let of_server = blocks.next().expect("the SQL that creates roles and database");
        // A database is not created in a transaction, as several statements of one call would be.
        for statement in of_server.split_inclusive(';').filter(|statement| statement.contains(';')) {
            self.run_sql("postgres", &renamed(statement, &database));
        }
        let in_database = blocks.next().expect("the SQL that gives rights in the database");
        self.run_sql(&database, &renamed(in_database, &database));
        let analyst = format!("{database}_analyst");
        self.run_sql("postgres", &format!("CREATE ROLE {analyst} LOGIN; GRANT {database}_reader TO {analyst}"));
        Roles {
            owner: self.url_of(&format!("{database}_owner"), &database),
            server: self.url_of(&format!("{database}_server"), &database),
            reader: self.url_of(&analyst, &database),
            database,
        }
    }

    /// URL of a database for a role.
    #[must_use]
    pub fn url_of(&self, role: &str, database: &str) -> String {
        self.url(database).replacen(&format!("{}@", self.role()), &format!("{role}@"), 1)
    }
}

/// SQL or commands of the documents, for another database than `daftar`, with roles whose names begin with its name.
#[must_use]
pub fn renamed(text: &str, database: &str) -> String {
    text.replace("DATABASE daftar", &format!("DATABASE {database}")).replace("daftar_", &format!("{database}_"))
}

/// The blocks of SQL of a section of a page.
pub fn sql_blocks(page: &'static str, section: &str) -> impl Iterator<Item = &'static str> {
    section_of(page, section).split("```sql\n").skip(1).filter_map(|block| block.split("```").next())
}

/// The commands of a section of a page, those of one block on a line each.
pub fn commands(page: &'static str, section: &str) -> impl Iterator<Item = &'static str> {
    section_of(page, section).lines().filter_map(|line| line.strip_prefix("    "))
}

/// The text of a section, with its subsections.
fn section_of(page: &'static str, section: &str) -> &'static str {
    let section = page.split_once(&format!("\n{section}\n")).map_or("", |(_, after)| after);
    section.split("\n## ").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The script that creates roles and database of the deployment by Compose.
    const SCRIPT: &str = include_str!("../../deploy/postgres/roles.sh");

    #[test]
    fn the_deployment_creates_the_roles_of_the_page() {
        let blocks: Vec<&str> = sql_blocks(SETUP, ROLES).take(2).collect();
        let statements = blocks.iter().flat_map(|block| block.lines());
        let statements: Vec<&str> = statements.filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
        assert!(statements.len() > 10, "{statements:?}");
        for statement in statements {
            // The passwords are those of the deployment.
            let (start, end) = statement.split_once("'…'").unwrap_or((statement, ""));
            let is_there =
                |line: &str| line == statement || (!end.is_empty() && line.starts_with(start) && line.ends_with(end));
            assert!(SCRIPT.lines().any(is_there), "{statement}");
        }
    }
}
