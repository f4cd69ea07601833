//! A process without change notifications queries for changes at each request.

use std::sync::Arc;

use daftar_tests::postgres::{Database, Processes, eventually};

fn figure(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no `{name}`: {page}"))
}

#[test]
fn a_process_without_its_listener_sees_the_newest_in_each_request() {
    let database = Arc::new(Database::shared());
    let mut processes = Processes::start_on(database.clone(), 1, "");
    let deaf = processes.start_one_by(&database.bounded_url());
    let credentials = processes.credentials(0, &["group:read"]);
    let client = processes.client_of(deaf, &credentials);
    let listening = || figure(&processes.admin(deaf).metrics(), "daftar_change_feed_up");
    eventually("it listens", || listening() == 1.0);
    // Enough connections to continue, for searches too: it gets no new ones.
    let connected =
        "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'bounded%' AND datname = current_database()";
    eventually("it has connections enough", || {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| client.get("/Group?_count=1"));
            }
        });
        database.sql(connected).trim().parse::<usize>().unwrap() >= 6
    });
    let auditing = "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'bounded%' AND application_name LIKE '%(audit %' \
         AND datname = current_database()";
    eventually("it has one for audit entries", || database.sql(auditing).trim() == "1");
    database.deafen();
    eventually("it notices that it does not hear", || listening() == 0.0);
    let admin = processes.admin(0);
    for _ in 0..20 {
        admin.grant(&credentials.id, "individual:read");
        admin.disable(&credentials.id);
        assert_eq!(client.get("/Individual?_count=1").status, 401);
        admin.enable(&credentials.id);
        let client = processes.client_of(deaf, &credentials);
        assert_eq!(client.get("/Individual?_count=1").status, 200);
        admin.revoke(&credentials.id, "individual:read");
        assert_eq!(client.get("/Individual?_count=1").status, 403);
    }
    database.undeafen();
    eventually("it hears again", || listening() == 1.0);
    assert_eq!(processes.client_of(deaf, &credentials).get("/Individual?_count=1").status, 403);
}

#[test]
fn an_invalid_token_costs_a_process_without_notifications_no_query() {
    let database = Arc::new(Database::shared());
    let mut processes = Processes::start_on(database.clone(), 1, "");
    let deaf = processes.start_one_by(&database.bounded_url());
    let page = || processes.admin(deaf).metrics();
    eventually("it listens", || figure(&page(), "daftar_change_feed_up") == 1.0);
    database.deafen();
    eventually("it notices that it does not hear", || figure(&page(), "daftar_change_feed_up") == 0.0);
    let before = figure(&page(), "daftar_change_feed_polls_total");
    let began = std::time::Instant::now();
    for number in 0..25 {
        let request = processes.server(deaf).connection().request("GET", "/api/v2/Group?_count=1");
        let request = if number % 2 == 0 { request.bearer("no.sound.token") } else { request };
        assert_eq!(request.send().status, 401);
    }
    // Four queries a second are its own.
    let own = began.elapsed().as_secs_f64().mul_add(4.0, 6.0);
    let requested = figure(&page(), "daftar_change_feed_polls_total") - before;
    assert!(requested <= own, "{requested} questions, {own} of them its own");
    database.undeafen();
}
