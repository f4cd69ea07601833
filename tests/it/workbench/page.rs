//! The page and its files: their caching, their policy, and their size.

use std::collections::BTreeSet;

use daftar_tests::{Response, TestApp, artifacts};

/// Maximum size of all files of the page as sent: 400 kB.
const COMPRESSED_MAX: u64 = 400_000;

fn page(app: &TestApp) -> Response {
    app.anonymous().request("GET", "/workbench").send().expect(200)
}

/// The files referenced by a text, by their paths.
fn named(text: &str) -> BTreeSet<String> {
    let parts = text.split(['"', '\'', '`']);
    parts.filter(|part| part.starts_with("workbench/")).map(|part| format!("/{part}")).collect()
}

#[test]
fn the_page_may_run_its_own_files_and_nothing_else() {
    let app = TestApp::start();
    let page = page(&app);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    let parts: BTreeSet<&str> = policy.split("; ").collect();
    let expected = [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ];
    assert_eq!(parts, BTreeSet::from(expected));
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    let text = page.text();
    for absent in ["<style", "style=", "onload", "onclick", "javascript:", "http:", "https:", "//"] {
        assert!(!text.contains(absent), "the page has `{absent}`");
    }
    let inline = text.split("<script").skip(1).find(|script| !script.contains("></script>"));
    assert_eq!(inline, None, "no script is written into the page");
}

#[test]
fn linked_files_exist_and_are_immutable_where_their_name_has_a_digest() {
    let app = TestApp::start();
    let files = named(&page(&app).text());
    assert!(files.iter().any(|file| file.ends_with(".js")) && files.iter().any(|file| file.ends_with(".css")));
    for file in &files {
        let anonymous = app.anonymous();
        let response = anonymous.request("GET", file).send().expect(200);
        let stored = if file.ends_with("icon.svg") { "no-cache" } else { "public, max-age=31536000, immutable" };
        assert_eq!(response.header("cache-control"), Some(stored), "{file}");
        assert_eq!(response.header("vary"), Some("Accept-Encoding"), "{file}");
        let tag = response.header("etag").unwrap();
        let again = anonymous.request("GET", file).header("If-None-Match", tag).send().expect(304);
        assert_eq!((again.bytes(), again.header("cache-control")), (&[][..], Some(stored)));
    }
    assert_eq!(page(&app).header("cache-control"), Some("no-cache"), "the page is asked for each time");
}

#[test]
fn the_page_includes_the_licences_of_its_libraries() {
    let app = TestApp::start();
    let reported = app.anonymous().request("GET", "/workbench/licences.txt").send().expect(200);
    assert_eq!(reported.header("content-type"), Some("text/plain; charset=utf-8"));
    let text = reported.text();
    for package in ["@codemirror/view", "d3-scale", "style-mod", "@lezer/highlight"] {
        let licence = text.lines().find(|line| line.starts_with(&format!("{package} ")));
        assert!(
            licence.is_some_and(|line| line.ends_with("(MIT)") || line.ends_with("(ISC)")),
            "{package}: {licence:?}"
        );
    }
}

#[test]
fn a_browser_that_takes_gzip_gets_fewer_bytes_under_another_tag() {
    let app = TestApp::start();
    for path in named(&page(&app).text()).iter().map(String::as_str).chain(["/workbench"]) {
        let anonymous = app.anonymous();
        let plain = anonymous.request("GET", path).send().expect(200);
        let small = anonymous.request("GET", path).header("Accept-Encoding", "gzip, deflate, br").send().expect(200);
        assert_eq!((plain.header("content-encoding"), small.header("content-encoding")), (None, Some("gzip")));
        assert!(small.bytes().len() < plain.bytes().len(), "{path}");
        assert_eq!(small.header("content-type"), plain.header("content-type"));
        let tag = small.header("etag").unwrap();
        assert_ne!(Some(tag), plain.header("etag"), "{path}");
        let other = anonymous.request("GET", path).header("If-None-Match", tag).send().expect(200);
        assert_eq!(other.bytes(), plain.bytes(), "the tag of the one form is not that of the other");
        let stored = anonymous.request("GET", path).header("Accept-Encoding", "gzip").header("If-None-Match", tag);
        drop(stored.send().expect(304));
    }
}

#[test]
fn no_other_file_is_served_and_no_token_is_required() {
    let app = TestApp::start();
    for path in ["/workbench/nothing.js", "/workbench/index.html", "/workbench/..%2FCargo.toml", "/workbench/%2e%2e"] {
        let refused = app.anonymous().request("GET", path).send().expect(404);
        assert_eq!(refused.detail(), "the workbench has no such file; open /workbench, which names those that it has");
        assert_eq!(refused.header("cache-control"), Some("no-store"));
    }
    drop(app.anonymous().request("GET", "/workbench?a=1").send().expect(400));
    drop(app.anonymous().request("POST", "/workbench").send().expect(405));
    assert_eq!(page(&app).header("x-ratelimit-limit"), Some("300"), "it is counted by address, with the documentation");
}

#[test]
fn an_office_behind_one_address_opens_the_page_at_once() {
    let app = TestApp::start();
    let anonymous = app.anonymous();
    let first = anonymous.request("GET", "/workbench").send().expect(200);
    let files: Vec<String> = named(&first.text()).into_iter().collect();
    for user in 0..5 {
        let paths = ["/workbench".to_owned()].into_iter().chain(files.iter().cloned());
        for path in paths {
            let response = anonymous.request("GET", &path).send();
            assert_eq!(response.status, 200, "{path} for user {user}");
        }
        for path in ["/metadata", "/openapi.json"] {
            drop(anonymous.request("GET", path).send().expect(200));
        }
    }
    let used = 1 + 5 * (1 + files.len() as i64);
    assert_eq!(anonymous.request("GET", "/docs/errors").send().expect(200).number("x-ratelimit-remaining"), 299 - used);
    assert_eq!(anonymous.request("GET", "/metadata").send().expect(200).number("x-ratelimit-remaining"), 19);
}

#[test]
fn the_admin_listener_has_the_same_page_and_no_more_data_without_its_token() {
    let app = TestApp::start();
    let admin = app.admin_listener();
    let its = admin.request("GET", "/admin/workbench").send().expect(200);
    assert_eq!(its.bytes(), page(&app).bytes());
    assert!(its.header("content-security-policy").unwrap().starts_with("default-src 'none'; script-src 'self'"));
    for file in named(&its.text()) {
        drop(app.admin_listener().request("GET", &format!("/admin{file}")).send().expect(200));
    }
    for path in ["/workbench", "/admin/v1/plugins", "/admin/nothing"] {
        drop(app.admin_listener().request("GET", path).send().expect(401));
    }
    drop(app.anonymous().request("GET", "/admin/workbench").send().expect(404));
}

#[test]
fn all_of_it_weighs_no_more_than_it_may() {
    let entries = std::fs::read_dir(artifacts::workbench()).unwrap().map(Result::unwrap);
    let sizes = entries
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "gz"))
        .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()));
    let sizes: Vec<_> = sizes.collect();
    let whole: u64 = sizes.iter().map(|(_, size)| size).sum();
    assert!(whole <= COMPRESSED_MAX, "{whole} bytes: {sizes:?}");
    assert!(sizes.len() >= 4, "the page was built: {sizes:?}");
}
