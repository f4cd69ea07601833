//! Plugins that are replaced and removed while requests use them: every request gets a response, by the old version or
//! by the new one.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use daftar_tests::records::{FEMALE, person, reference};
use daftar_tests::{TestApp, artifacts, packs};
use serde_json::json;

/// Number of replacements of the plugins.
const ROUNDS: usize = 4;

/// Signals the end when it is dropped, also when a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn no_request_is_lost_while_engine_and_packs_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let versions = ["1.0.0", "2.0.0"].map(|version| fs::read(packs::build(folder.path(), version, None)).unwrap());
    let [engine, gender] = ["eligibility-cel", "gender"].map(|name| fs::read(artifacts::plugin(name)).unwrap());
    let app = TestApp::start();
    let admin = app.admin();
    let client = app.client(&["individual:all", "eligibility:read"]);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE}))));
    let rule = json!({"expression": "in_group(me.gender, 'feminine_gender')", "subjects": [reference("1")]});
    let is_over = AtomicBool::new(false);
    let requested = std::thread::scope(|scope| {
        let ask = || {
            let mut requested = 0;
            while !is_over.load(Ordering::Acquire) {
                let response = client.post("/Eligibility/$evaluate", &rule).expect(200).json();
                assert_eq!(response["results"][0]["outcome"], "eligible", "{response}");
                assert_eq!(client.found("gender=urn:iso:std:iso:5218%232"), ["1"]);
                requested += 1;
            }
            requested
        };
        let asking = [scope.spawn(ask), scope.spawn(ask)];
        let over = Over(&is_over);
        for round in 0..ROUNDS {
            for (name, plugin) in [("small", &versions[round % 2]), ("eligibility-cel", &engine), ("gender", &gender)] {
                assert_eq!(admin.install(plugin).expect(201).json()["name"], name);
            }
            assert_eq!(admin.request("DELETE", "/plugins/small").send().status, 204);
        }
        drop(over);
        asking.map(|asking| asking.join().unwrap())
    });
    assert!(requested.iter().all(|requested| *requested > 0), "{requested:?}");
}
