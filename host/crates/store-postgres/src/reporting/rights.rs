//! Owner, rights and options of a view. A view that has to be dropped gets them back when it is created again.
//!
//! **Invariant:** rights are those of before, and not those of default privileges: a right that was revoked is not
//! granted again. The owner grants them all, also those that another role had granted.

use tokio_postgres::Transaction;

use super::super::failure::Failure;

/// The owner, if it is another role: a statement.
const OWNER: &str = "\
SELECT format('ALTER VIEW reporting.%I OWNER TO %I', class.relname, pg_get_userbyid(class.relowner))
FROM pg_class AS class
WHERE class.oid = to_regclass('reporting.' || $1) AND pg_get_userbyid(class.relowner) <> current_user";

/// The options that decide how it reads tables, as statements. CREATE OR REPLACE VIEW resets them.
const OPTIONS: &str = "\
SELECT format('ALTER VIEW reporting.%I SET (%I = %L)', class.relname, given.option_name, given.option_value)
FROM pg_class AS class CROSS JOIN LATERAL pg_options_to_table(class.reloptions) AS given
WHERE class.oid = to_regclass('reporting.' || $1) AND given.option_name IN ('security_barrier', 'security_invoker')";

/// The rights of the view and of its columns: the column, NULL for the whole view, and a statement.
const GRANTS: &str = "\
WITH view AS (
    SELECT class.oid, class.relname, class.relowner, class.relacl FROM pg_class AS class
    WHERE class.oid = to_regclass('reporting.' || $1)
), given AS (
    SELECT NULL::name AS attname, acl.grantee, acl.privilege_type, acl.is_grantable
    FROM view CROSS JOIN LATERAL aclexplode(coalesce(view.relacl, acldefault('r', view.relowner))) AS acl
    UNION ALL
    SELECT attribute.attname, acl.grantee, acl.privilege_type, acl.is_grantable
    FROM view JOIN pg_attribute AS attribute ON attribute.attrelid = view.oid AND attribute.attnum > 0
    CROSS JOIN LATERAL aclexplode(attribute.attacl) AS acl
)
SELECT given.attname::text,
       format('GRANT %s%s ON reporting.%I TO %s%s', given.privilege_type, ' (' || quote_ident(given.attname) || ')',
              view.relname, CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(role.rolname) END,
              CASE WHEN given.is_grantable THEN ' WITH GRANT OPTION' END)
FROM view CROSS JOIN given LEFT JOIN pg_roles AS role ON role.oid = given.grantee
WHERE given.grantee = 0 OR role.rolname IS NOT NULL";

/// Statements that revoke all rights of a view that was just created: those of its owner and of default privileges.
const REVOKES: &str = "\
SELECT DISTINCT format('REVOKE ALL ON reporting.%I FROM %s', class.relname,
                       CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(given.grantee)) END)
FROM pg_class AS class
CROSS JOIN LATERAL aclexplode(coalesce(class.relacl, acldefault('r', class.relowner))) AS given
WHERE class.oid = to_regclass('reporting.' || $1)";

/// Views and materialized views that read a view, except itself.
const DEPENDENTS: &str = "\
SELECT DISTINCT format('%I.%I', schema.nspname, class.relname) AS name
FROM pg_depend AS dependency
JOIN pg_rewrite AS rule ON rule.oid = dependency.objid
JOIN pg_class AS class ON class.oid = rule.ev_class
JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
WHERE dependency.classid = 'pg_rewrite'::regclass AND dependency.refclassid = 'pg_class'::regclass
  AND dependency.refobjid = to_regclass('reporting.' || $1) AND class.oid <> dependency.refobjid
ORDER BY name";

/// Rights of a view, as statements that set them.
pub(super) struct Rights {
    owner: Vec<String>,
    options: Vec<String>,
    /// Each with its column, or without one if it is of the whole view.
    grants: Vec<(Option<String>, String)>,
}

impl Rights {
    /// Reads those of a view.
    pub(super) async fn of(transaction: &Transaction<'_>, view: &str) -> Result<Self, Failure> {
        let mut grants = Vec::new();
        for row in transaction.query(GRANTS, &[&view]).await? {
            grants.push((row.try_get(0)?, row.try_get(1)?));
        }
        let (owner, options) = (texts(transaction, OWNER, view).await?, texts(transaction, OPTIONS, view).await?);
        Ok(Self { owner, options, grants })
    }

    /// Sets the options of a view that was replaced.
    pub(super) async fn set_options(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        run(transaction, &self.options).await
    }

    /// Sets owner, options and rights of a view that was dropped and created again with these columns.
    pub(super) async fn restore(
        &self,
        transaction: &Transaction<'_>,
        view: &str,
        columns: &[String],
    ) -> Result<(), Failure> {
        // The owner is first: it is the one that grants the rights.
        run(transaction, &self.owner).await?;
        self.set_options(transaction).await?;
        run(transaction, &texts(transaction, REVOKES, view).await?).await?;
        let grants = self.grants.iter().filter(|(column, _)| {
            let Some(column) = column else { return true };
            columns.contains(column)
        });
        run(transaction, &grants.map(|(_, grant)| grant.clone()).collect::<Vec<_>>()).await
    }
}

/// Names of the views that read a view: it cannot be dropped while they exist.
pub(super) async fn dependents(transaction: &Transaction<'_>, view: &str) -> Result<Vec<String>, Failure> {
    texts(transaction, DEPENDENTS, view).await
}

/// The first column of a statement with the name of a view as its value.
async fn texts(transaction: &Transaction<'_>, statement: &str, view: &str) -> Result<Vec<String>, Failure> {
    let rows = transaction.query(statement, &[&view]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, tokio_postgres::Error>>()?)
}

async fn run(transaction: &Transaction<'_>, statements: &[String]) -> Result<(), Failure> {
    if !statements.is_empty() {
        transaction.batch_execute(&statements.join(";\n")).await?;
    }
    Ok(())
}
