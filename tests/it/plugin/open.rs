//! Open vocabularies: codes that a pack reads by a grammar, in records, searches and rules; and packs that do not
//! answer.

use daftar::domain::config::plugin_limits::PluginLimitsConfig;
use daftar::domain::manifest::PluginName;
use daftar_tests::records::{household, path, person, with};
use daftar_tests::{ApiClient, Response, TestApp, artifacts, errors};
use serde_json::{Value, json};

use crate::deployment::build;

const OCCUPATION: &str = "urn:ilo:isco-08";
const LANGUAGE: &str = "urn:ietf:bcp:47";

/// A register whose vocabulary of occupations is open.
fn app() -> (TestApp, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let needed = ["id-type", "gender", "relationship", "group-type", "eligibility-cel"];
    let needed = needed.map(|name| artifacts::plugins().join(format!("{name}.wasm")));
    for file in needed.into_iter().chain([artifacts::fixture("open-occupation")]) {
        std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    (TestApp::builder().plugins(folder.path()).call_ms("open-occupation", 20_000).start(), folder)
}

fn create(client: &ApiClient, id: &str, occupation: &str) -> Response {
    client.post("/Individual", &person(id, json!({"occupation": format!("{OCCUPATION}#{occupation}")})))
}

fn shown(client: &ApiClient, id: &str, language: &str) -> Value {
    let request = client.request("GET", &path("Individual", id)).header("Accept-Language", language);
    request.send().expect(200).json()["occupation"].take()
}

fn outcome(client: &ApiClient, expression: &str, subject: &Value) -> String {
    let body = json!({"expression": expression, "subjects": [subject]});
    let response = client.post("/Eligibility/$evaluate", &body).expect(200).json();
    response["results"][0]["outcome"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

/// Every code that has a number in the store of a server that has stopped.
fn numbered_codes(data_dir: &std::path::Path) -> Vec<String> {
    use daftar::store::Store as _;
    use daftar::store::sled::{SledOptions, SledStore};
    let store = SledStore::open(&data_dir.join("store"), SledOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let table = runtime.block_on(store.code_table()).unwrap();
    table.codes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_record_keeps_an_unlisted_code_in_its_normal_spelling() {
    let (mut app, _folder) = app();
    let client = app.client(&["individual:all", "eligibility:read"]);
    let created = create(&client, "1", "farm+fish").expect(201).json();
    insta::assert_json_snapshot!(created["occupation"], @r#"
    {
      "code": "FARM+FISH",
      "display": "Farming + Fishing",
      "namespace": "urn:ilo:isco-08",
      "uri": "urn:ilo:isco-08#FARM+FISH"
    }
    "#);
    assert_eq!(shown(&client, "1", "fr")["display"], "Agriculture + Pêche");
    drop(create(&client, "2", "FARM").expect(201));
    for spelling in ["FARM%2BFISH", "farm%2Bfish"] {
        assert_eq!(client.found(&format!("occupation={OCCUPATION}%23{spelling}")), ["1"], "{spelling}");
    }
    assert_eq!(client.found(&format!("occupation={OCCUPATION}%23FISH%2BFISH")), [""; 0]);
    app.restart();
    assert_eq!(shown(&client, "1", "fr")["display"], "Agriculture + Pêche", "its pack is asked again at each start");
    drop(create(&client, "3", "FARM+FISH").expect(201));
    assert_eq!(
        client.found(&format!("occupation={OCCUPATION}%23FARM%2BFISH")),
        ["1", "3"],
        "the number is the same one"
    );
}

/// A module that adds a field with codes of the open vocabulary.
fn fisheries() -> Vec<u8> {
    let settings = format!(
        r#"
name = "fisheries"
version = "1.0.0"
description = "What people of the fisheries do."
licence = "CC0-1.0"

[[extension_field]]
path = "fishery.works"
type = "coded"
repeated = true
vocabulary = "{OCCUPATION}"

[[vocabulary]]
namespace = "urn:test:gear"
name = "Gear"
domain = "Core"
version = "1"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "gear.tsv"
count = 1
"#
    );
    build(&settings, &[("gear.tsv", "code\nnet\n", "code\tlabel\nnet\tNet\n")])
}

#[test]
fn fields_that_modules_add_keep_unlisted_codes_of_people_and_groups() {
    let (mut app, _folder) = app();
    drop(app.admin().install(&fisheries()).expect(201));
    let client = app.client(&["individual:all", "group:all", "eligibility:read"]);
    let works = |codes: &[&str]| {
        let codes: Vec<String> = codes.iter().map(|code| format!("{OCCUPATION}#{code}")).collect();
        json!({"extension": {"fishery": {"works": codes}}})
    };
    let created = client.create_individual(&person("1", works(&["fish+farm", "FISH"])));
    let group = with(household("h", &[("1", "head")]), works(&["farm+fish+fish"]));
    let group = client.create_group(&group);
    let displays = |record: &Value| {
        let works = record["extension"]["fishery"]["works"].as_array().unwrap_or_else(|| panic!("{record}")).clone();
        works.iter().map(|code| code["display"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(displays(&created), ["Fishing + Farming", "Fishing"]);
    assert_eq!(displays(&group), ["Farming + Fishing + Fishing"]);
    let rule = format!("me.extension.fishery.works.exists(w, descends_from(w, '{OCCUPATION}#FISH+FARM'))");
    assert_eq!(outcome(&client, &rule, &json!(daftar_tests::records::reference("1"))), "eligible");
    let refused = client.post("/Group", &with(household("g", &[]), works(&["HUNT"]))).expect(422).json();
    assert_eq!(errors(&refused), [("extension.fishery.works[0]".to_owned(), "malformed_code".to_owned())]);
    app.restart();
    assert_eq!(displays(&client.get(&path("Individual", "1")).expect(200).json()), displays(&created));
    assert_eq!(displays(&client.get(&path("Group", "h")).expect(200).json()), displays(&group));
}

#[test]
fn rules_know_unlisted_codes_of_records_and_of_the_request() {
    let (app, _folder) = app();
    let client = app.client(&["individual:all", "eligibility:read"]);
    drop(create(&client, "1", "FARM+FISH+FARM").expect(201));
    let stored = json!(daftar_tests::records::reference("1"));
    let inline = |code: &str| json!({"type": "individual", "occupation": format!("{OCCUPATION}#{code}")});
    let is = |code: &str| format!("me.occupation == code('{OCCUPATION}#{code}')");
    let below = |code: &str| format!("descends_from(me.occupation, '{OCCUPATION}#{code}')");
    for (expression, subject, expected) in [
        (is("FARM+FISH+FARM"), stored.clone(), "eligible"),
        (is("farm+fish+farm"), stored.clone(), "eligible"),
        (is("FARM+FISH"), stored.clone(), "not_eligible"),
        (below("FARM+FISH"), stored.clone(), "eligible"),
        (below("FARM"), stored.clone(), "eligible"),
        (below("FISH"), stored.clone(), "not_eligible"),
        (is("FISH+FISH"), inline("fish+fish"), "eligible"),
        (is("FISH+FARM"), inline("FISH+FISH"), "not_eligible"),
        (below("FISH"), inline("FISH+FISH+FISH"), "eligible"),
        (below("FISH+FISH"), inline("FISH+FISH+FISH"), "eligible"),
        (below("FISH+FISH"), inline("FISH+FARM"), "not_eligible"),
        ("me.occupation.display == 'Fishing + Farming'".to_owned(), inline("fish+farm"), "eligible"),
    ] {
        assert_eq!(outcome(&client, &expression, &subject), expected, "{expression} of {subject}");
    }
}

#[test]
fn a_code_against_the_grammar_is_rejected_with_the_message_of_the_pack() {
    let (app, _folder) = app();
    let client = app.client(&["individual:all", "eligibility:read"]);
    let refused = create(&client, "1", "FARM+HUNT").expect(422).json();
    let sentence = "`urn:ilo:isco-08#FARM+HUNT` is no code of its vocabulary: `FARM+HUNT` does not join `FARM` and `FISH` by `+`, as `FARM+FISH` does";
    assert_eq!(errors(&refused), [("occupation".to_owned(), "malformed_code".to_owned())]);
    assert_eq!(refused["errors"][0]["message"], sentence);
    let rule = json!({"expression": format!("me.occupation == code('{OCCUPATION}#HUNT')"), "subjects": [{"type": "individual"}]});
    let refused = client.post("/Eligibility/$evaluate", &rule).expect(422).json();
    assert_eq!(refused["diagnostics"][0]["code"], "malformed_code", "{refused}");
    let searched = client.get(&format!("/Individual?occupation={OCCUPATION}%23HUNT")).expect(400);
    assert!(searched.detail().contains("does not join"), "{}", searched.detail());
    assert_eq!(client.get("/Individual").expect(200).json()["total"], 0);
}

#[test]
fn a_code_for_which_a_pack_fails_is_refused_and_nothing_else() {
    let (app, _folder) = app();
    let client = app.client(&["individual:all", "eligibility:read"]);
    for code in ["loop", "memory", "stack", "panic", "not-open", "other", "orphan", "circle", "nameless"] {
        let refused = create(&client, code, code).expect(422);
        assert!(refused.detail().contains("`urn:ilo:isco-08` fails for a code"), "{code}: {}", refused.detail());
        assert!(refused.header("retry-after").is_none(), "{code}: repeating it does not help");
        assert_eq!(refused.code(), "vocabulary_failed", "{code}");
        let body = json!({"expression": format!("me.occupation == code('{OCCUPATION}#{code}')"), "subjects": [{"type": "individual"}]});
        assert_eq!(client.post("/Eligibility/$evaluate", &body).status, 422, "{code}");
        assert_eq!(create(&client, &format!("{code}-2"), "FARM+FISH").status, 201, "after {code}");
    }
    let plugins = app.admin().get("/plugins").expect(200).json();
    let plugin = plugins["data"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "open-occupation").unwrap();
    let faults = plugin["faults_by_kind"].as_array().unwrap();
    let invalid = faults.iter().find(|fault| fault["kind"] == "invalid_answer").unwrap_or_else(|| panic!("{plugin}"));
    assert!(invalid["count"].as_u64().unwrap() >= 8, "orphans, circles and missing labels are counted: {plugin}");
    assert!(plugin["faults"].as_u64().unwrap() >= 16, "{plugin}");
}

#[test]
fn all_codes_of_a_request_share_one_budget() {
    let (app, _folder) = app();
    let client = app.client(&["vocabulary:read"]);
    let validate = |count: usize| {
        let codes: Vec<String> = (0..count).map(|number| format!("{OCCUPATION}#SLOW-{count}-{number}")).collect();
        client.post("/Vocabulary/$validate", &json!({"codes": codes}))
    };
    assert_eq!(validate(1).expect(200).json()["results"][0]["valid"], true);
    let refused = validate(40).expect(422);
    assert!(refused.detail().contains("`urn:ilo:isco-08` fails for a code"), "{}", refused.detail());
    assert_eq!(validate(2).status, 200, "and the next request has its own");
}

#[test]
fn a_write_that_is_refused_leaves_no_number_behind() {
    let (mut app, _folder) = app();
    drop(app.admin().install(&fisheries()).expect(201));
    let client = app.client(&["individual:all", "group:all"]);
    let coded = |id: &str, code: &str| person(id, json!({"occupation": format!("{OCCUPATION}#{code}")}));
    drop(create(&client, "1", "FARM+FISH").expect(201));
    // The identifier is in use; with a key as well, for a person and for a group.
    drop(create(&client, "1", "FARM+FARM").expect(409));
    let repeated = client.request("POST", "/Individual").header("Idempotency-Key", "k1").json(&coded("1", "FARM+FARM"));
    drop(repeated.send().expect(409));
    drop(client.create_group(&household("h", &[])));
    let works = json!({"extension": {"fishery": {"works": [format!("{OCCUPATION}#FARM+FARM")]}}});
    drop(client.post("/Group", &with(household("h", &[]), works)).expect(409));
    // A version that is not the present one, and a transaction of which one entry is refused.
    let stale = client.request("PATCH", &path("Individual", "1")).header("If-Match", "\"9\"");
    drop(stale.json(&json!({"occupation": format!("{OCCUPATION}#FARM+FARM")})).send().expect(409));
    let entry =
        |id: &str, code: &str| json!({"request": {"method": "POST", "url": "Individual"}, "resource": coded(id, code)});
    let batch = |entries: Vec<Value>| json!({"type": "transaction", "entry": entries});
    let refused = client.post("/$batch", &batch(vec![entry("2", "FARM+FARM"), entry("1", "FISH+FARM")]));
    assert_ne!(refused.status, 200, "{}", refused.text());
    // A transaction that is written gives numbers to the codes of all its entries.
    let written = vec![entry("3", "FISH+FISH"), entry("4", "FISH+FISH"), entry("5", "FISH+FISH+FISH")];
    drop(client.post("/$batch", &batch(written)).expect(200));
    let keyed =
        client.request("POST", "/Individual").header("Idempotency-Key", "k2").json(&coded("6", "FARM+FISH+FARM"));
    drop(keyed.send().expect(201));
    for (id, display) in
        [("3", "Fishing + Fishing"), ("5", "Fishing + Fishing + Fishing"), ("6", "Farming + Fishing + Farming")]
    {
        assert_eq!(shown(&client, id, "en")["display"], display);
    }
    assert_eq!(client.found(&format!("occupation={OCCUPATION}%23FISH%2BFISH")), ["3", "4"]);
    app.stop();
    let numbered = numbered_codes(app.data_dir());
    let unlisted: Vec<&str> = numbered.iter().filter(|code| code.contains('+')).map(String::as_str).collect();
    let expected =
        ["FARM+FISH", "FISH+FISH", "FISH+FISH+FISH", "FARM+FISH+FARM"].map(|code| format!("{OCCUPATION}#{code}"));
    assert_eq!(unlisted, expected);
}

#[test]
fn one_client_brings_its_share_of_an_open_vocabulary_and_others_theirs() {
    use daftar::store::Store as _;
    use daftar::store::sled::{SledOptions, SledStore};
    let (mut app, _folder) = app();
    let client = app.client(&["individual:all"]);
    drop(create(&client, "1", "FARM+FISH").expect(201));
    app.stop();
    {
        let store = SledStore::open(&app.data_dir().join("store"), SledOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let name = format!("open/{}/{OCCUPATION}", client.id());
        assert_eq!(runtime.block_on(store.counter(&name)).unwrap(), Some(1), "a record of the client brought one");
        runtime.block_on(store.raise_counter(&name, 2_498)).unwrap();
    }
    app.restart();
    let greedy = app.client_of(client.credentials());
    let other = app.client(&["individual:all"]);
    drop(create(&greedy, "2", "FISH+FARM").expect(201));
    drop(create(&greedy, "3", "FARM+FISH").expect(201));
    drop(create(&greedy, "4", "FISH+FISH").expect(201));
    let refused = create(&greedy, "5", "FARM+FARM").expect(422).json();
    assert_eq!(errors(&refused), [(String::new(), "open_vocabulary_share".to_owned())]);
    assert!(refused.to_string().contains("2500 is the share of one client"), "{refused}");
    let resource = person("5", json!({"occupation": format!("{OCCUPATION}#FARM+FARM")}));
    let entry = json!({"request": {"method": "POST", "url": "Individual"}, "resource": resource});
    let again = json!({"type": "transaction", "entry": [entry]});
    assert!(greedy.post("/$batch", &again).text().contains("open_vocabulary_share"));
    drop(create(&other, "6", "FARM+FARM").expect(201));
    drop(create(&greedy, "5", "FARM+FARM").expect(201));
}

#[test]
fn many_clients_bring_new_codes_at_once_and_each_record_keeps_its_own() {
    let (app, _folder) = app();
    let client = app.client(&["individual:all"]);
    let code = |number: usize| {
        let word = |bit: usize| if number >> bit & 1 == 1 { "FARM" } else { "FISH" };
        ["FISH", word(0), word(1), word(2), word(3)].join("+")
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = client.clone();
            scope.spawn(move || {
                for number in 0..16 {
                    drop(create(&client, &format!("{thread}-{number}"), &code((number + 4 * thread) % 16)).expect(201));
                }
            });
        }
    });
    for (thread, number) in (0..4).flat_map(|thread| (0..16).map(move |number| (thread, number))) {
        let shown = shown(&client, &format!("{thread}-{number}"), "en");
        assert_eq!(shown["code"], code((number + 4 * thread) % 16), "{shown}");
    }
}

#[test]
fn one_request_imports_more_new_codes_than_a_client_may_have_look_ups() {
    const LINES: usize = 200;
    let (app, _folder) = app();
    let code = |number: usize| {
        let trades: Vec<&str> = (0..8).map(|bit| if number >> bit & 1 == 0 { "FISH" } else { "FARM" }).collect();
        trades.join("+")
    };
    let lines: String = (0..LINES)
        .map(|number| {
            let mut line = person(&number.to_string(), json!({"occupation": format!("{OCCUPATION}#{}", code(number))}));
            line["type"] = json!("individual");
            format!("{line}\n")
        })
        .collect();
    let url = format!("{}/admin/v1/import?id=new-codes", app.admin_listener().url());
    let request = ureq::post(url).header("Authorization", format!("Bearer {}", app.admin().token()));
    let mut response = request.header("Content-Type", "application/x-ndjson").send(lines).unwrap();
    // The result of each line is streamed, so that the response has no length.
    let reported = response.body_mut().read_to_string().unwrap();
    let end: Value = serde_json::from_str(reported.lines().last().unwrap()).unwrap();
    assert_eq!((&end["done"], &end["created"]), (&json!(true), &json!(LINES)), "{reported}");
    let client = app.client(&["individual:read"]);
    for number in [0, LINES / 2, LINES - 1] {
        assert_eq!(shown(&client, &number.to_string(), "en")["code"], code(number));
    }
}

#[test]
fn a_read_only_query_allocates_no_number() {
    let (mut app, _folder) = app();
    let client = app.client(&["individual:all", "eligibility:read"]);
    let rule = format!("me.occupation == code('{OCCUPATION}#FISH+FARM')");
    assert_eq!(
        outcome(&client, &rule, &json!({"type": "individual", "occupation": format!("{OCCUPATION}#FARM")})),
        "not_eligible"
    );
    let twice = json!({"identifier": [], "occupation": format!("{OCCUPATION}#FISH+FARM")});
    assert_eq!(client.post("/Individual", &twice).status, 422);
    app.stop();
    let numbers = numbered_codes(app.data_dir());
    assert!(numbers.iter().any(|uri| uri == "urn:ilo:isco-08#FARM"), "{numbers:?}");
    assert!(!numbers.iter().any(|uri| uri.contains("FISH+FARM")), "{numbers:?}");
}

#[test]
fn the_language_tags_of_the_internet_are_an_open_vocabulary() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let rule = |code: &str| json!({"expression": format!("descends_from(me.gender, '{LANGUAGE}#{code}')"), "subjects": [{"type": "individual", "gender": "urn:iso:std:iso:5218#2"}]});
    let evaluate = |code: &str| client.post("/Eligibility/$evaluate", &rule(code));
    assert_eq!(evaluate("pt-BR").expect(422).json()["diagnostics"][0]["code"], "vocabulary_not_installed");
    let module = std::fs::read(artifacts::module("language-tag")).unwrap();
    assert_eq!(app.admin().install(&module).expect(201).json()["name"], "language-tag");
    for code in ["pt", "pt-BR", "PT-br", "zh-Hant-TW", "de-DE-u-co-phonebk", "x-village"] {
        let response = evaluate(code).expect(200).json();
        assert_eq!(response["results"][0]["outcome"], "not_eligible", "{code}: {response}");
    }
    let reader = app.client(&["vocabulary:read"]);
    let code = |code: &str| {
        reader.request("GET", &format!("/Vocabulary/{LANGUAGE}/codes/{code}")).header("Accept-Language", "fr").send()
    };
    let shown = code("zh-hant-TW").expect(200).json();
    assert_eq!((&shown["code"], &shown["display"]), (&json!("zh-Hant-TW"), &json!("chinois (Hant, TW)")), "{shown}");
    assert_eq!(code("zh_Hant").status, 404);
    let subsumes =
        |a: &str, b: &str| reader.get(&format!("/Vocabulary/{LANGUAGE}/$subsumes?a={a}&b={b}")).expect(200).json();
    for (a, b, outcome) in [
        ("zh", "zh-Hant-TW", "subsumes"),
        ("zh-Hant-TW", "zh-Hant", "subsumed_by"),
        ("ZH-hant", "zh-Hant", "equivalent"),
        ("pt", "zh-Hant", "not_subsumed"),
    ] {
        assert_eq!(subsumes(a, b)["outcome"], outcome, "{a} {b}");
    }
    assert_eq!(shown["requested_code"], "zh-hant-TW");
    let codes = ["pt-BR", "pt", "pt-br", "eng", "sh", "pt_BR"].map(|code| format!("{LANGUAGE}#{code}"));
    let requested = json!({"codes": codes});
    let validated = reader.post("/Vocabulary/$validate", &requested).expect(200).json();
    let reported = |result: &Value| {
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        (result["valid"].as_bool().unwrap(), text("reason"), text("suggestion").replace(LANGUAGE, ""))
    };
    let reported: Vec<(bool, String, String)> = validated["results"].as_array().unwrap().iter().map(reported).collect();
    let expected = [
        (true, "", ""),
        (true, "", ""),
        (true, "", "#pt-BR"),
        (true, "", "#en"),
        (false, "deprecated", ""),
        (false, "malformed_code", ""),
    ];
    assert_eq!(reported, expected.map(|(valid, reason, suggestion)| (valid, reason.to_owned(), suggestion.to_owned())));
    let message = validated["results"][5]["message"].as_str().unwrap();
    assert!(message.ends_with("did you mean `pt-BR`?"), "{message}");
    let looked_up = reader.post("/Vocabulary/$lookup", &requested).expect(200).json();
    assert_eq!(looked_up["results"][2]["display"], "Portuguese (BR)", "{looked_up}");
    assert_eq!(looked_up["results"][2]["requested_code"], "pt-br", "{looked_up}");
    let many: Vec<String> =
        (0..1_000).map(|number| format!("{LANGUAGE}#zh-Hant-TW-x-a-b-c-d-e-f-g-{number}")).collect();
    let many = reader.post("/Vocabulary/$validate", &json!({"codes": many})).expect(200).json();
    assert!(
        many["results"].as_array().unwrap().iter().all(|result| result["valid"] == true),
        "a full batch, twelve levels deep"
    );
    let listed = |query: &str| reader.get(&format!("/Vocabulary/{LANGUAGE}/codes?{query}"));
    assert_eq!(listed("below=pt-BR").expect(200).json()["total"], 0, "what is not listed is in no list");
    assert_eq!(listed("parent=pt_BR").expect(422).json()["errors"][0]["code"], "malformed_code");

    let refused = evaluate("pt_BR").expect(422).json();
    let message = refused["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.contains("`pt_BR` is not a language tag"), "{message}");
}

#[test]
fn a_pack_that_takes_too_long_is_unavailable() {
    let (_, folder) = app();
    // With so much fuel the time runs out first, which depends on the load of the machine.
    let limits = PluginLimitsConfig { fuel_base: Some(50_000_000_000), call_ms: Some(300), ..Default::default() };
    let name = PluginName::parse("open-occupation").unwrap();
    let configured = TestApp::builder().plugins(folder.path());
    let limits = [(name, limits)].into();
    let app = configured.config(|config| config.plugins.limits = limits).start();
    let client = app.client(&["individual:all"]);
    let refused = create(&client, "1", "loop").expect(503);
    assert_eq!(refused.code(), "vocabulary_unavailable");
    assert!(refused.detail().contains("`urn:ilo:isco-08` does not respond"), "{}", refused.detail());
    assert!(refused.header("retry-after").is_some());
}

/// The fixture as the next version, in which fire takes the place of fish.
fn next_version() -> Vec<u8> {
    let mut bytes = std::fs::read(artifacts::fixture("open-occupation")).unwrap();
    for (from, to) in [(&b"FISH"[..], &b"FIRE"[..]), (b"\"version\":\"1.0.0\"", b"\"version\":\"1.1.0\"")] {
        let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
        assert!(!places.is_empty(), "the fixture has no `{}`", String::from_utf8_lossy(from));
        for place in places {
            bytes[place..place + to.len()].copy_from_slice(to);
        }
    }
    bytes
}

#[test]
fn a_version_that_does_not_resolve_codes_in_records_is_reported_and_needs_a_word() {
    let (app, _folder) = app();
    let client = app.client(&["individual:all"]);
    for (id, code) in [("1", "FARM+FISH"), ("2", "FARM+FISH"), ("3", "FARM+FARM")] {
        drop(create(&client, id, code).expect(201));
    }
    let newer = next_version();
    let reported = app.admin().request("POST", "/plugin-reports").body("application/wasm", newer.clone()).send();
    let reported = reported.expect(200).json();
    let unresolved = reported["unresolved_codes"].as_array().unwrap_or_else(|| panic!("{reported}"));
    assert_eq!(unresolved.len(), 1, "{reported}");
    assert_eq!(
        (&unresolved[0]["uri"], &unresolved[0]["records"]),
        (&json!(format!("{OCCUPATION}#FARM+FISH")), &json!(2))
    );
    assert!(unresolved[0]["reason"].as_str().unwrap().contains("does not join"), "{reported}");
    let refused = app.admin().install(&newer).expect(422);
    assert!(refused.detail().contains("does not resolve 1 codes of open vocabularies"), "{}", refused.detail());
    let accepted = app.admin().request("POST", "/plugins?accept_loss=true").body("application/wasm", newer).send();
    assert_eq!(accepted.status, 201, "{}", accepted.text());
}
