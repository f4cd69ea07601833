//! Clocks of servers that differ are reported: each server compares its clock with the database's.

use std::sync::Arc;

use daftar_tests::postgres::{Database, Processes, eventually, run};

/// A database whose clock is behind every server's.
fn behind(database: &Database, seconds: u32) {
    let name = database.sql("SELECT current_database()").trim().to_owned();
    database.sql("CREATE SCHEMA skewed");
    database.sql(&format!(
        "CREATE FUNCTION skewed.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE \
         AS $$ SELECT pg_catalog.clock_timestamp() - interval '{seconds} s' $$"
    ));
    database.sql(&format!("ALTER DATABASE {name} SET search_path = skewed, pg_catalog"));
}

fn difference(page: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with("daftar_clock_difference_seconds "))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn a_clock_that_differs_from_the_databases_is_reported_by_log_metrics_and_doctor() {
    for (seconds, is_large) in [(0, false), (600, true)] {
        let database = Arc::new(Database::shared());
        behind(&database, seconds);
        let mut processes = Processes::start_on(database, 1, "");
        let admin = processes.admin(0);
        eventually("the clocks are compared", || difference(&admin.metrics()).is_some());
        let ahead = difference(&admin.metrics()).unwrap();
        assert!((ahead - f64::from(seconds)).abs() < 2.0, "{ahead}");
        let reported = run(processes.data_dir(0), &["doctor", "--json", "--all"]);
        let checks = reported.json()["checks"].as_array().cloned().unwrap_or_default();
        let check = checks.iter().find(|check| check["area"] == "clock" && check["check"] == "database");
        let state = check.map(|check| check["state"].clone());
        assert_eq!(state, Some(if is_large { "problem" } else { "ok" }.into()), "{reported:?}");
        let (ended, _) = processes.stop(0);
        let logged = ended.stderr.lines().filter(|line| line.contains("clock.ahead_s")).count();
        assert_eq!(logged, usize::from(is_large), "{}", ended.stderr);
    }
}
