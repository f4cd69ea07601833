use std::sync::Mutex;

use super::*;
use crate::check::check;
use crate::open::{CallingThread, OpenCodes, OpenFailure, OpenPacks, QueriedCode, ResolvedConcept};
use crate::testing::{TestConcept, generation_of, origin, table_of};
use daftar_domain::code::Code;
use daftar_domain::eligibility::{Answer, Question, Truth};
use daftar_domain::vocabulary::{Concept, ConceptStatus, LocalizedText};

const NAMESPACE: &str = "urn:test:tags";

/// Pack that normalizes codes such as `A-b-c` to `a-b-c`, below `a-b`, and records the queries.
#[derive(Default)]
struct Tags(Mutex<Vec<String>>);

impl OpenPacks for Tags {
    fn resolve(
        &self,
        _: &PackOrigin,
        _: &Namespace,
        codes: &[Code],
        _: CallingThread,
    ) -> Result<Vec<ResolvedConcept>, OpenFailure> {
        let answer = |code: &Code| {
            let normal = code.as_str().to_lowercase();
            self.0.lock().unwrap().push(code.to_string());
            match normal.as_str() {
                "liar" => Ok(concept("liar-2", None)),
                "orphan" => Ok(concept("orphan", Some("bad!"))),
                fat if fat.starts_with("fat-") => {
                    let value = "x".repeat(fat["fat-".len()..].parse().unwrap());
                    Ok(Concept { properties: vec![("p".to_owned(), value)], ..concept(fat, None) })
                }
                "deep" => Ok(concept("deep", Some("deep-0"))),
                deeper if deeper.starts_with("deep-") => {
                    let level: usize = deeper["deep-".len()..].parse().unwrap();
                    Ok(concept(deeper, Some(&format!("deep-{}", level + 1))))
                }
                bad if bad.ends_with('!') => Err("no exclamation marks, please".to_owned()),
                tag => Ok(concept(tag, tag.rsplit_once('-').map(|(above, _)| above))),
            }
        };
        Ok(codes.iter().map(answer).collect())
    }

    fn record_invalid(&self, _: &PackOrigin) {
        self.0.lock().unwrap().push("invalid".to_owned());
    }
}

fn concept(code: &str, parent: Option<&str>) -> Concept {
    Concept {
        code: Code::parse(code).unwrap(),
        status: ConceptStatus::Active,
        is_selectable: true,
        parents: parent.map(|parent| Code::parse(parent).unwrap()).into_iter().collect(),
        replaced_by: None,
        labels: vec![LocalizedText { language: "en".to_owned(), value: format!("Label of {code}") }],
        definitions: Vec::new(),
        aliases: Vec::new(),
        uri: None,
        properties: Vec::new(),
    }
}

fn generation() -> Generation {
    generation_of([contents()])
}

fn contents() -> PackContents {
    let listed = TestConcept::new("a", "A");
    let (mut description, concepts) = VocabularyBuilder::new(NAMESPACE).concept(listed).contents();
    (description.is_open, description.is_hierarchical) = (true, true);
    PackContents { vocabularies: vec![(description, concepts)], concept_groups: Vec::new() }
}

fn uri(code: &str) -> CodeUri {
    CodeUri::from_parts(NAMESPACE, code).unwrap()
}

fn ask(codes: &[&str]) -> (Generation, Arc<Tags>, Result<Vec<Arc<QueriedCode>>, String>) {
    let packs = Arc::new(Tags::default());
    let generation = generation();
    let uris: Vec<CodeUri> = codes.iter().map(|code| uri(code)).collect();
    let requested = OpenCodes::new(packs.clone()).look_up(&generation, &uris, CallingThread::MayWait);
    (generation, packs, requested.map_err(|error| error.failure.reason))
}

#[test]
fn a_code_is_known_by_its_normal_spelling_with_all_that_lies_above_it() {
    let (generation, _, requested) = ask(&["A-B-C", "a-b", "A-B-C"]);
    let known = generation.with_open(&requested.unwrap(), None).unwrap();
    assert_eq!(known.digest(), generation.digest(), "what was asked is no part of what is published");
    let spelt = known.look_up(&uri("A-B-C")).unwrap();
    assert_eq!((spelt.code(), spelt.default_label()), ("a-b-c", "Label of a-b-c"));
    let above: Vec<&str> = spelt.ancestors().map(|concept| concept.code()).collect();
    assert_eq!(above, ["a-b", "a"]);
    let (listed, below) = known.side_by_side(known.look_up(&uri("a")).unwrap(), spelt);
    assert!(below.is_below(listed));
    assert!(!known.needs_lookup(&uri("a-b")) && known.needs_lookup(&uri("a-b-d")));
    assert_eq!(generation.vocabulary(&uri("a").namespace).unwrap().concept_count(), 1);
}

#[test]
fn numbers_of_one_request_lie_past_the_last_one_that_was_given() {
    let (generation, _, requested) = ask(&["a-b", "a-c"]);
    let known = generation.with_open(&requested.unwrap(), None).unwrap();
    assert_eq!((generation.code_count(), known.code_count()), (1, 3));
    let numbers: Vec<u32> = ["a-b", "a-c"].iter().map(|code| known.number_of(&uri(code)).unwrap().0).collect();
    assert!(numbers.iter().all(|number| *number >= 1), "{numbers:?}");
    let truths = known.answer(&Question::DescendsFrom(uri("a").to_string())).unwrap();
    assert_eq!(truths, Answer::Truths { truths: vec![Truth::Yes; 3], missing: None });
    let truths = known.answer(&Question::DescendsFrom(uri("a-b").to_string())).unwrap();
    let Answer::Truths { truths, .. } = truths else { panic!("{truths:?}") };
    assert_eq!(truths.iter().filter(|truth| **truth == Truth::Yes).count(), 1);
    assert!(!truths.contains(&Truth::Unknown), "{truths:?}");
}

#[test]
fn a_code_that_another_server_numbered_is_unknown_until_its_pack_resolves_it() {
    let before = generation();
    let table = Arc::new(before.table().with_codes(&[uri("a-b"), uri("z")]).unwrap());
    let below_a = |generation: &Generation| {
        let answer = generation.answer(&Question::DescendsFrom(uri("a").to_string())).unwrap();
        let Answer::Truths { truths, .. } = answer else { panic!("{answer:?}") };
        truths
    };
    let resolve = |generation: &Generation, code: &str| {
        let codes_of_packs = OpenCodes::new(Arc::new(Tags::default()));
        codes_of_packs.look_up(generation, &[uri(code)], CallingThread::MayWait).unwrap()
    };
    let longer = before.with_open(&[], Some(Arc::clone(&table))).unwrap();
    assert_eq!(below_a(&longer), [Truth::Yes, Truth::Unknown, Truth::Unknown]);
    let known = longer.with_open(&resolve(&longer, "a-b"), Some(Arc::clone(&table))).unwrap();
    assert_eq!(below_a(&known), [Truth::Yes, Truth::Yes, Truth::Unknown]);
    let resolved = known.with_open(&resolve(&known, "z"), Some(table)).unwrap();
    assert_eq!(below_a(&resolved), [Truth::Yes, Truth::Yes, Truth::No]);
    let are_unresolved = [&before, &longer, &known, &resolved].map(Generation::has_unresolved_codes);
    assert_eq!(are_unresolved, [false, true, true, false]);
    let requested = known.with_open(&resolve(&known, "a-c"), None).unwrap();
    assert_eq!(requested.number_of(&uri("a-c")), Some(CodeNumber(3)), "its number is not that of a stored code");
}

#[test]
fn codes_that_records_hold_are_asked_for_when_a_pack_is_published() {
    let before = generation();
    let table = Arc::new(before.table().with_codes(&[uri("a-b-c")]).unwrap());
    let stored = before.with_open(&[], Some(table.clone())).unwrap();
    assert_eq!(stored.unrequested(&uri("a").namespace), [uri("a-b-c")]);
    let requested =
        OpenCodes::new(Arc::new(Tags::default())).look_up(&stored, &[uri("a-b-c")], CallingThread::MayWait).unwrap();
    let known = stored.with_open(&requested, Some(table)).unwrap();
    assert!(known.unrequested(&uri("a").namespace).is_empty());
    assert_eq!(known.code_count(), 2, "what only lies above a stored code gets no number");
    assert!(known.needs_lookup(&uri("a-b")), "and the pack is asked when a request names it");
}

#[test]
fn a_rejection_by_a_pack_has_its_message() {
    let (generation, _, requested) = ask(&["oh!"]);
    let known = generation.with_open(&requested.unwrap(), None).unwrap();
    let problem = known.look_up(&uri("oh!")).unwrap_err();
    assert_eq!(problem.reason(), "malformed_code");
    insta::assert_snapshot!(problem.to_string(), @"`urn:test:tags#oh!` is no code of its vocabulary: no exclamation marks, please");
}

#[test]
fn a_pack_that_contradicts_itself_is_not_believed() {
    for (code, reason) in
        [("liar", "which it named itself"), ("orphan", "named `bad!` itself"), ("deep", "more than 16 codes")]
    {
        let (_, _, requested) = ask(&[code]);
        let reported = requested.unwrap_err();
        assert!(reported.contains(reason), "{code}: {reported}");
    }
}

#[test]
fn results_are_cached_until_another_generation_is_published() {
    let packs = Arc::new(Tags::default());
    let codes_of_packs = OpenCodes::new(packs.clone());
    let generation = generation();
    for _ in 0..3 {
        codes_of_packs.look_up(&generation, &[uri("a-b")], CallingThread::MayWait).unwrap();
    }
    assert_eq!(packs.0.lock().unwrap().len(), 1);
    let other = generation_of([VocabularyBuilder::new("urn:test:other").concepts([("x", "X")]).pack()]);
    codes_of_packs.look_up(&other, &[uri("a-b")], CallingThread::MayWait).unwrap();
    assert_eq!(packs.0.lock().unwrap().len(), 1, "a vocabulary that is not there is not asked");
    let mut builder = GenerationBuilder::new();
    let rebuilt = PackOrigin { digest: "11".repeat(32), ..origin("pack-0") };
    builder.add(rebuilt, &check(contents()).unwrap()).unwrap();
    let rebuilt = builder.build(table_of(&builder)).unwrap();
    assert_eq!(rebuilt.digest(), generation.digest());
    codes_of_packs.look_up(&rebuilt, &[uri("a-b")], CallingThread::MayWait).unwrap();
    assert_eq!(packs.0.lock().unwrap().len(), 2, "a pack that lists the same may read other codes otherwise");
}

#[test]
fn what_is_said_of_one_code_is_bounded() {
    // `en`, `Label of fat-65506`, the code itself and `p` have 30 bytes.
    for (length, is_taken) in [(65_505, true), (65_506, true), (65_507, false)] {
        let (_, _, requested) = ask(&[&format!("fat-{length}")]);
        assert_eq!(requested.is_ok(), is_taken, "{length}: {requested:?}");
    }
}

#[test]
fn the_room_for_long_answers_is_bounded_in_bytes() {
    let codes_of_packs = OpenCodes::new(Arc::new(Tags::default()));
    let generation = generation();
    for number in 0..300 {
        codes_of_packs
            .look_up(&generation, &[uri(&format!("fat-{}", 50_000 + number))], CallingThread::MayWait)
            .unwrap();
    }
    let cached = codes_of_packs.cached_count();
    assert!((80..=168).contains(&cached), "{cached} of 50 kB are in 8 MiB");
}

#[test]
fn the_room_for_answers_is_bounded() {
    let codes_of_packs = OpenCodes::new(Arc::new(Tags::default()));
    let generation = generation();
    let codes: Vec<CodeUri> = (0..10_000).map(|number| uri(&format!("a-{number}"))).collect();
    codes_of_packs.look_up(&generation, &codes, CallingThread::MayWait).unwrap();
    assert!(codes_of_packs.cached_count() <= 4_096, "{}", codes_of_packs.cached_count());
}
