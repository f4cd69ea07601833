//! The documentation site that the server serves.

use std::collections::BTreeSet;

use daftar_tests::TestApp;

/// The targets of attributes of a page, relative to its folder.
fn targets<'a>(html: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
}

/// The path of a relative target of a page.
fn resolved(page: &str, target: &str) -> String {
    let target = target.split(['#', '?']).next().unwrap_or_default();
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_page_of_the_site_and_all_that_it_loads_is_served() {
    let app = TestApp::start();
    let get = |path: &str| app.anonymous().request("GET", path).send();
    assert_eq!(get("/docs").expect(308).header("location"), Some("/docs/"));
    let mut open = vec!["/docs/".to_owned()];
    let mut seen: BTreeSet<String> = open.iter().cloned().collect();
    let mut pages = 0;
    while let Some(path) = open.pop() {
        let response = get(&path).expect(200);
        if !response.header("content-type").is_some_and(|is| is.starts_with("text/html")) {
            continue;
        }
        pages += 1;
        assert!(
            response.header("content-security-policy").is_some_and(|is| is.contains("frame-ancestors 'none'")),
            "{path}"
        );
        let html = response.text();
        for target in targets(&html, "href=\"").chain(targets(&html, "src=\"")) {
            if target.is_empty()
                || target.contains("://")
                || target.starts_with(['#', '/'])
                || target.starts_with("data:")
            {
                continue;
            }
            let next = resolved(&path, target);
            // One page of the API's operations represents all.
            if seen.len() < 150 && seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(pages >= 40, "only {pages} pages are reached");
}

#[test]
fn a_page_that_is_not_there_is_404_and_names_the_site() {
    let app = TestApp::start();
    for path in ["/docs/nothing.html", "/docs/../admin.token", "/docs/%2e%2e/secret", "/docs/guides"] {
        let refused = app.anonymous().request("GET", path).send().expect(404);
        assert!(
            refused.detail().contains("`/docs/`") || refused.detail().contains("/metadata"),
            "{}",
            refused.detail()
        );
    }
}

#[test]
fn addresses_of_the_search_lead_to_their_pages() {
    let app = TestApp::start();
    let get = |path: &str| app.anonymous().request("GET", path).send();
    for path in ["/docs/?search=nginx", "/docs/how-to/nginx.html?highlight=put%20nginx"] {
        assert_eq!(get(path).expect(200).header("content-type"), Some("text/html; charset=utf-8"), "{path}");
    }
    let refused = get("/docs/?serach=nginx").expect(400);
    assert!(refused.detail().contains("`serach`"), "{}", refused.detail());
}

#[test]
fn the_scripts_of_a_page_are_those_that_its_policy_names() {
    use base64::Engine as _;
    use sha2::Digest as _;
    let app = TestApp::start();
    let page = app.anonymous().request("GET", "/docs/index.html").send().expect(200);
    let policy = page.header("content-security-policy").unwrap();
    let html = page.text();
    let mut inline = 0;
    for rest in html.split("<script").skip(1) {
        let (head, body) = rest.split_once('>').unwrap();
        if head.contains("src=") {
            continue;
        }
        let body = body.split_once("</script>").unwrap().0;
        let digest = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(body));
        assert!(policy.contains(&format!("'sha256-{digest}'")), "{body}");
        inline += 1;
    }
    assert!(inline > 0 && !policy.contains("script-src 'self' 'unsafe"), "{policy}");
}
