use daftar_auth::key_ring::DecisionKeyRing;
use daftar_domain::eligibility::{Answer, Batch, Children, Column, ColumnValues, Question, RowSpace, Subject, Truth};
use daftar_domain::explanation::{ExplainedPart, ExplainedValue};
use daftar_domain::extension::ExtensionFields;
use daftar_vocabulary::testing::generation;
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Value, json};

use super::inputs::add_texts;
use super::*;
use crate::eligibility::evaluate::{EvaluateRequest, ExplanationTree, Node};
use crate::eligibility::layout::Bitmap;
use crate::eligibility::schema::schema;

const FEMALE: &str = "urn:iso:std:iso:5218#2";

fn column(space: RowSpace, path: &str, valid: &[bool], values: ColumnValues) -> Column {
    let mut bitmap = Bitmap::default();
    valid.iter().for_each(|is_set| bitmap.push(*is_set));
    Column { space, path: path.to_owned(), valid: bitmap.finish(), values }
}

/// A person with an address, and two members of the household, of which one has no gender.
fn content() -> (Content, Batch) {
    let generation = generation();
    let female = generation.number_of(&daftar_domain::code::CodeUri::parse(FEMALE).unwrap()).unwrap();
    let (me, members) = (RowSpace::Me, RowSpace::Members);
    let texts = ColumnValues::Texts { offsets: vec![0, 5, 5], bytes: b"Thi\xc3\xa8".to_vec() };
    let batch = Batch {
        as_of: 20_513,
        rows: 1,
        members: Some(Children { offsets: vec![0, 2], known: Vec::new() }),
        programs: Some(Children { offsets: vec![0, 0], known: vec![0] }),
        columns: vec![
            column(me, "active", &[true], ColumnValues::Booleans(vec![1])),
            column(me, "address", &[true], ColumnValues::Lists(vec![0, 2])),
            column(me, "address[].city", &[true, false], texts),
            column(me, "birth_date", &[true], ColumnValues::Days(vec![-3_287])),
            column(members, "gender", &[true, false], ColumnValues::Codes(vec![female.0, 0])),
        ],
    };
    let mut truths = vec![Truth::No; generation.code_count()];
    truths[female.0 as usize] = Truth::Yes;
    let questions = vec![
        (
            Question::InGroup("women".to_owned()),
            Answer::Truths { truths, missing: Some("concept_group.women".to_owned()) },
        ),
        (Question::Code(FEMALE.to_owned()), Answer::Number(female)),
    ];
    let request = EvaluateRequest {
        expression: "is_female(me)".to_owned(),
        program: None,
        subject: Subject::Individual,
        subjects: Vec::new(),
        as_of: None,
        explain: true,
        repeated: None,
        evidence: true,
    };
    let schema = schema(Subject::Individual, &ExtensionFields::default());
    let as_of = Date::constant(2026, 3, 1);
    let facts =
        EngineFacts { schema: &schema, as_of, questions, batches: vec![batch.clone()], generation: &generation };
    let content = Content::new(&request, "cel@1.0.0 sha256:0", facts).unwrap();
    (content.complete(&["Individual/a|1".to_owned()], "https://r.example.org", "{}".to_owned()), batch)
}

fn ring() -> (tempfile::TempDir, DecisionKeyRing) {
    let folder = tempfile::tempdir().unwrap();
    let ring = DecisionKeyRing::load_or_create(folder.path(), Timestamp::UNIX_EPOCH).unwrap();
    (folder, ring)
}

#[test]
fn facts_are_readable_and_give_the_same_batch() {
    let (content, batch) = content();
    let subject = serde_json::to_value(&content.subjects[0]).unwrap();
    let expected = json!({
        "subject": "Individual/a|1", "members": 2, "programs": null,
        "facts": {
            "me.active": [true], "me.address": [2], "me.address[].city": ["Thiè", null],
            "me.birth_date": ["1961-01-01"], "members.gender": [FEMALE, null],
        },
    });
    assert_eq!(subject, expected);
    let asked = serde_json::to_value(&content.questions).unwrap();
    let expected = json!([
        {"kind": "in_group", "of": "women", "yes": [FEMALE], "missing": "concept_group.women"},
        {"kind": "code", "of": FEMALE, "yes": [FEMALE]},
    ]);
    assert_eq!(asked, expected);
    let read: Content = serde_json::from_value(serde_json::to_value(&content).unwrap()).unwrap();
    assert_eq!(read, content);
    // The only code of the bundle has the number 0.
    let mut renumbered = batch;
    renumbered.columns[4].values = ColumnValues::Codes(vec![0, 0]);
    assert_eq!(format!("{:?}", read.inputs().unwrap()).matches(&format!("{renumbered:?}")).count(), 1);
}

#[test]
fn the_same_decision_is_the_same_file_and_every_changed_byte_is_detected() {
    let (_folder, ring) = ring();
    let (content, _) = content();
    let file = sign(&ring.load(), &content).unwrap();
    assert_eq!(sign(&ring.load(), &content).unwrap(), file);
    let bundle = open(&file).unwrap();
    assert_eq!((&bundle.content, bundle.key.kid.as_str()), (&content, ring.load().current().id()));
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(open(&changed).is_err(), "byte {at} of {}", String::from_utf8_lossy(&changed));
    }
    for changed in [&file[..file.len() - 1], &[&file[..], b"\n"].concat(), &[b" ", &file[..]].concat()] {
        assert!(open(changed).is_err(), "{}", String::from_utf8_lossy(changed));
    }
}

#[test]
fn files_that_are_no_bundles_are_rejected_with_the_reason() {
    let reason = |file: &[u8]| open(file).unwrap_err();
    assert!(reason(b"").starts_with("it is not an evidence bundle"));
    assert!(reason(b"{\"daftar_evidence\":2}").contains("format 2, and this program reads format 1"));
    assert!(reason(b"{\"daftar_evidence\":1}").contains("missing field"));
    assert!(reason("[".repeat(100_000).as_bytes()).starts_with("it is not an evidence bundle"));
    assert!(reason(&vec![b' '; BUNDLE_BYTES_MAX + 1]).contains("16777216"));
    let (_folder, ring) = ring();
    let (content, _) = content();
    let text = String::from_utf8(sign(&ring.load(), &content).unwrap()).unwrap();
    assert!(reason(text.replace("\"seal\":", "\"seal\": ").as_bytes()).contains("formatted in another way"));
    assert!(reason(text.replace("is_female", "is_male").as_bytes()).contains("changed after it was signed"));
}

#[test]
fn content_that_contradicts_itself_is_rejected_with_the_part() {
    let (content, _) = content();
    let valid = serde_json::to_value(&content).unwrap();
    let reason = |pointer: &str, value: Value| {
        let mut changed = valid.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        serde_json::from_value::<Content>(changed).unwrap().inputs().unwrap_err()
    };
    let facts = |name: &str| format!("/subjects/0/facts/{name}");
    for (pointer, value, part) in [
        ("/subject".to_owned(), json!("household"), "`subject`"),
        ("/as_of".to_owned(), json!("2026-3-1"), "`as_of`"),
        ("/schema/0/type".to_owned(), json!("code"), "`schema[0]`"),
        ("/codes/0/code".to_owned(), json!("3"), "is not in `codes`"),
        ("/questions/1/yes".to_owned(), json!([]), "must name one code"),
        ("/issuer".to_owned(), json!("\u{1b}[2J"), "control characters"),
        ("/subjects/0/members".to_owned(), json!(3), "2 values of `members.gender` for 3 rows"),
        (facts("me.active"), json!([1]), "must be `true` or `false`"),
        (facts("me.active"), json!([true, true]), "2 values of `me.active` for 1 rows"),
        (facts("me.address"), json!([-1]), "must be a number of items"),
        (facts("me.address"), json!([4_294_967_296_u64]), "too long"),
        (facts("me.address"), json!([1]), "2 values of `me.address[].city` for 1 rows"),
        (facts("me.birth_date"), json!(["1961-02-30"]), "must be a date"),
        (facts("members.gender"), json!(["urn:a#b", null]), "must be a code of `codes`"),
    ] {
        let reason = reason(&pointer, value);
        assert!(reason.contains(part), "{pointer}: {reason}");
    }
    let unknown = reason("/subjects/0/facts", json!({"me.shoe_size": [42]}));
    assert!(unknown.contains("`me.shoe_size`, which is not a field"), "{unknown}");
    let orphan = reason("/subjects/0/facts", json!({"me.address[].city": []}));
    assert!(orphan.contains("without `me.address`"), "{orphan}");
}

#[test]
fn a_bundle_is_read_in_memory_in_proportion_to_its_size() {
    let (content, _) = content();
    let valid = serde_json::to_value(&content).unwrap();
    let read = |questions: usize, codes: usize| {
        let mut changed = valid.clone();
        let codes = (0..codes).map(|code| json!({"namespace": "", "code": code.to_string(), "display": ""}));
        changed["codes"].as_array_mut().unwrap().extend(codes);
        changed["questions"] = json!(vec![json!({"kind": "in_group", "of": "", "yes": []}); questions]);
        let text = changed.to_string();
        (text.len(), serde_json::from_str::<Content>(&text).unwrap().inputs())
    };
    let (bytes, inputs) = read(1_000, 2_000);
    let shown = format!("{:?}", inputs.unwrap()).len();
    // With the truth of every code for every question it would have 50 times the size of the bundle.
    assert!(shown < 4 * bytes, "{shown} for {bytes}");
    let (_, inputs) = read(1_001, 2_000);
    assert_eq!(inputs.unwrap_err(), "`questions` has 1001 questions, and a rule has at most 1000");

    let with_subjects = |count: usize| {
        let subjects = vec![content.subjects[0].clone(); count];
        Content { subjects, ..content.clone() }.inputs()
    };
    assert!(with_subjects(100).is_ok());
    assert_eq!(with_subjects(101).unwrap_err(), "`subjects` has 101 subjects, and a bundle has at most 100");

    for value in [json!([{"": 0}]), json!([[0]])] {
        let mut changed = valid.clone();
        changed["subjects"][0]["facts"]["me.active"] = value;
        let problem = serde_json::from_value::<Content>(changed).unwrap_err().to_string();
        assert!(problem.contains("expected the value of a fact"), "{problem}");
    }
}

#[test]
fn explanations_that_no_bundle_can_contain_are_rejected_before_the_next_one() {
    let node = |text: String, missing: Vec<String>, children: Vec<Node>| {
        let value = ExplainedValue::Unknown;
        let part = ExplainedPart { parent: None, text: 0..1, item: None, value, missing, error: None, seen: vec![] };
        Node { text, part, children }
    };
    let quarter = || "x".repeat(BUNDLE_BYTES_MAX / 4);
    let root = node(String::new(), vec![quarter()], vec![node(quarter(), vec![], vec![])]);
    let (tree, mut bytes) = (ExplanationTree { root, is_cut: false }, 0);
    assert!(add_texts(&tree, &mut bytes).is_ok() && add_texts(&tree, &mut bytes).is_ok());
    assert_eq!(bytes, BUNDLE_BYTES_MAX);
    let small = ExplanationTree { root: node("x".to_owned(), vec![], vec![]), is_cut: false };
    let problem = add_texts(&small, &mut bytes).unwrap_err().to_string();
    assert!(problem.contains("16777216 bytes; name fewer subjects"), "{problem}");
}

#[test]
fn keys_are_read_from_a_key_and_from_a_set() {
    let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "b", "use": "sig"});
    let expected = [VerificationKey::new("a", "b")];
    assert_eq!(VerificationKey::read_all(&key.to_string()).unwrap(), expected);
    let set = json!({"keys": [{"kty": "RSA", "kid": "r"}, key]});
    assert_eq!(VerificationKey::read_all(&set.to_string()).unwrap(), expected);
    assert!(VerificationKey::read_all("{").unwrap_err().contains("not JSON"));
    assert!(VerificationKey::read_all("{\"keys\": []}").unwrap_err().contains("no Ed25519 key"));
}
