//! Invalid files: every fault is reported, and nothing is written.

use std::path::Path;

use daftar_tests::process::{Finished, run};
use serde_json::json;

use super::{SAID, owner_file, text};

/// Result of an import into a folder that does not exist.
fn import(folder: &Path, format: &str, file: &Path, more: &[&str]) -> Finished {
    let out = folder.join("out");
    let arguments = [&["pack", "import", format, text(file), "-o", text(&out)], more].concat();
    run(&folder.join("data"), &arguments)
}

/// Reason for rejecting a file of this content, without its name and folder. Nothing is left of the attempt.
fn refusal(format: &str, content: &[u8], more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sample");
    std::fs::write(&file, content).unwrap();
    let refused = import(folder.path(), format, &file, more);
    assert!([2, 66].contains(&refused.code) && refused.stdout.is_empty(), "an option, or the file: {refused:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["sample"], "something was left behind");
    refused.stderr.replace(&format!("{}:", file.display()), "FILE:")
}

/// One of the valid files with a text replaced.
fn spoilt(name: &str, from: &str, to: &str) -> Vec<u8> {
    let bytes = std::fs::read(owner_file(name)).unwrap();
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    assert!(text.contains(from), "{name} has no `{from}`");
    text.replacen(from, to, 1).chars().map(|character| u8::try_from(character).unwrap()).collect()
}

#[test]
fn every_kind_of_wrong_file_is_refused_with_line_and_code() {
    let table = spoilt("SimpleTabulation-ICD-11-MMS-en.txt", "\t1A01\t", "\t1A00\t");
    insta::assert_snapshot!(refusal("who-tabulation", &table, &[]), @r"
    error: FILE:7: code `1A00`: the code occurs again; it is already on line 4
    nothing was written
    ");
    let table = spoilt("LinearizationMiniOutput-ICF-en.txt", "\tb1142\t", "\tb1143\t");
    insta::assert_snapshot!(refusal("who-tabulation", &table, &[]), @r"
    error: FILE:7: code `b11420`: its parent `b1142` is not a code of this vocabulary
    nothing was written
    ");
    let table = spoilt("ISCO-08 EN.csv", "111,Writers of long lists,1111", "112,Writers of long lists,x111");
    insta::assert_snapshot!(refusal("isco-csv", &table, &[]), @r"
    error: FILE:2: code `x111`: `x111` is not a number of at most 4 digits, as its level has
    FILE:3: code `112`: it is already on line 2, with the title `Writers of long lists`
    nothing was written
    ");
    let triples = spoilt("agrovoc-core.nt", "\"invented grain\"@en", "\"invented grain@en");
    insta::assert_snapshot!(refusal("skos-nt", &triples, &[]), @r"
    error: FILE:4: column 92: Unexpected end of file
    nothing was written
    ");
    let turtle = spoilt("thesaurus.ttl", "t:garden a", "x:garden a");
    insta::assert_snapshot!(refusal("skos-ttl", &turtle, SAID), @r"
    error: FILE:10: column 1: The prefix x: has not been declared
    nothing was written
    ");
    let list = spoilt("list-one.xml", "<CcyNbr>008<", "<CcyNbr>8<");
    insta::assert_snapshot!(refusal("six-xml", &list, &[]), @r"
    error: FILE:4: code `ZZA`: its number is `8`, not three digits
    nothing was written
    ");
    let list = spoilt("iso_3166-1.json", "\"QA\"", "\"QB\"");
    insta::assert_snapshot!(refusal("iso-json", &list, &[]), @r"
    error: FILE:4: code `QB`: the code occurs again; it is already on line 3
    nothing was written
    ");
    let table = spoilt("iso-639-3.tab", "\tqx\t", "\tQX\t");
    insta::assert_snapshot!(refusal("sil-tab", &table, &[]), @r"
    error: FILE:2: code `QX`: `QX` is not two lower-case letters
    nothing was written
    ");
    let system = spoilt("codesystem.json", "\"valueCode\": \"card\"", "\"valueCode\": \"cord\"");
    insta::assert_snapshot!(refusal("fhir", &system, &[]), @r"
    error: FILE:21: code `ruled`: its parent `cord` is not a code of this vocabulary
    nothing was written
    ");
    let table = spoilt("tools.tsv", "hand|garden", "hand|gardens");
    insta::assert_snapshot!(refusal("tsv", &table, SAID), @r"
    error: FILE:4: code `hoe`: its parent `gardens` is not a code of this vocabulary
    FILE:5: code `mattoc`: its successor `hoe` was refused
    nothing was written
    ");
}

#[test]
fn a_concept_below_itself_is_refused_with_the_way_round() {
    let broader = |child: &str, parent: &str| {
        format!(
            "<http://x/{child}> <http://www.w3.org/2004/02/skos/core#broader> <http://x/{parent}> .\n\
             <http://x/{child}> <http://www.w3.org/2004/02/skos/core#prefLabel> \"{child}\"@en .\n"
        )
    };
    let triples = [broader("a", "b"), broader("b", "c"), broader("c", "a")].concat();
    let more = [SAID, &["--root", "a"]].concat();
    insta::assert_snapshot!(refusal("skos-nt", triples.as_bytes(), &more), @r"
    error: FILE:1: code `a`: the code is below itself: a → b → c → a
    FILE:1: code `b`: the code is below itself: a → b → c → a
    FILE:3: code `c`: the code is below itself: a → b → c → a
    nothing was written
    ");
}

#[test]
fn options_that_cannot_be_used_are_refused() {
    let triples = std::fs::read(owner_file("agrovoc-core.nt")).unwrap();
    insta::assert_snapshot!(refusal("skos-nt", &triples, &["--root", "c_404"]), @r"
    error: --root is `c_404`, which is not the code or IRI of a concept of this file
    nothing was written
    ");
    insta::assert_snapshot!(refusal("skos-nt", &triples, &["--root", "c_8", "--language", "english"]), @r"
    error: --language is `english`, which is not a BCP 47 tag, such as en or pt-BR
    nothing was written
    ");
    insta::assert_snapshot!(refusal("skos-nt", &triples, &["--root", "c_8", "--name", "Not A Name"]), @r"
    error: --name is `Not A Name`, which is not a pack's name: lower-case letters, digits and hyphens
    nothing was written
    ");
    let table = std::fs::read(owner_file("tools.tsv")).unwrap();
    insta::assert_snapshot!(refusal("tsv", &table, &[]), @r"
    error: --namespace, --title, --licence must be given: a table does not contain them
    nothing was written
    ");
}

#[test]
fn a_file_that_is_not_there_and_a_folder_that_is_taken_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = import(folder.path(), "tsv", &folder.path().join("nowhere.tsv"), SAID);
    assert!(refused.code == 66 && refused.stderr.contains("nowhere.tsv: it cannot be read"), "{refused:?}");
    let refused = import(folder.path(), "tsv", folder.path(), SAID);
    assert!(refused.code == 66 && refused.stderr.contains("it is not a file"), "{refused:?}");

    let file = owner_file("tools.tsv");
    let refused = import(&folder.path().join("nowhere"), "tsv", &file, SAID);
    assert!(refused.code == 73 && refused.stderr.contains("there is no folder `"), "{refused:?}");
    drop(import(folder.path(), "tsv", &file, SAID).expect_success());
    let labels = folder.path().join("out/labels/en/tools.tsv");
    let before = std::fs::read_to_string(&labels).unwrap();
    let refused = import(folder.path(), "tsv", &file, SAID);
    assert!(refused.code == 73 && refused.stderr.contains("is there already and is not empty"), "{refused:?}");
    let french = [SAID, &["--replace", "--language", "fr"]].concat();
    let refused = import(folder.path(), "tsv", &file, &french);
    assert!(refused.code == 66 && refused.stderr.contains("no label in the default language `fr`"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&labels).unwrap(), before, "a refused file replaces nothing");
    let english = [SAID, &["--replace", "--language", "en"]].concat();
    let refused = import(folder.path(), "tsv", &file, &english);
    let lost = "--replace would delete from `";
    assert!(
        refused.code == 73 && refused.stderr.contains(lost) && refused.stderr.contains("`labels/fr`"),
        "{refused:?}"
    );
    let own = folder.path().join("out/notes.txt");
    std::fs::write(&own, "ours").unwrap();
    let replaced = [SAID, &["--replace"]].concat();
    let refused = import(folder.path(), "tsv", &file, &replaced);
    assert!(refused.code == 73 && refused.stderr.contains("does not write: `notes.txt`;"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "ours");
    std::fs::remove_file(own).unwrap();
    std::fs::write(&labels, "something else").unwrap();
    drop(import(folder.path(), "tsv", &file, &replaced).expect_success());
    assert_eq!(std::fs::read_to_string(&labels).unwrap(), before, "the folder is replaced whole");
}

#[test]
fn the_next_edition_retains_manual_additions_to_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = owner_file("tools.tsv");
    drop(import(folder.path(), "tsv", &file, SAID).expect_success());
    let settings = folder.path().join("out/pack.toml");
    let first = std::fs::read_to_string(&settings).unwrap();
    let namespace = first.lines().find_map(|line| line.strip_prefix("namespace = ")).unwrap().to_owned();
    let field = "[[extension_field]]\npath = \"farm.tool\"\ntype = \"coded\"\n";
    let added = format!("{first}extensible = true\n\n{field}vocabulary = {namespace}\n");
    std::fs::write(&settings, added).unwrap();
    let cases = folder.path().join("out/tests/more/cases.toml");
    std::fs::create_dir_all(cases.parent().unwrap()).unwrap();
    std::fs::write(&cases, "ours").unwrap();
    let replaced = [SAID, &["--replace"]].concat();
    let reported = import(folder.path(), "tsv", &file, &replaced).expect_success().stdout;
    assert!(
        reported.contains("manual additions to `pack.toml` were kept: `extension_field`, `extensible of "),
        "{reported}"
    );
    let again = std::fs::read_to_string(&settings).unwrap();
    assert!(again.contains(field) && again.contains("extensible = true"), "{again}");
    assert_eq!(std::fs::read_to_string(&cases).unwrap(), "ours");
    let third = import(folder.path(), "tsv", &file, &replaced).expect_success().stdout;
    assert_eq!((reported, again), (third, std::fs::read_to_string(&settings).unwrap()), "the same once more");

    // A vocabulary of its own, without codes, is in no table that would be missed.
    let own = "\n[[vocabulary]]\nnamespace = \"urn:example:own\"\nname = \"Own\"\ndomain = \"Test\"\nversion = \"1\"\n\
        source = \"ours\"\ndefault_language = \"en\"\nlanguages = [\"en\"]\ncompleteness = \"empty\"\n";
    std::fs::write(&settings, format!("{first}{own}")).unwrap();
    let refused = import(folder.path(), "tsv", &file, &replaced);
    assert!(refused.code == 73 && refused.stderr.contains("does not write: `urn:example:own`;"), "{refused:?}");
}

#[test]
fn rejections_are_listed_as_json_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sample");
    std::fs::write(&file, "code\tlabel[en]\na b\tOne\nc\t\n").unwrap();
    let refused = import(folder.path(), "tsv", &file, &[SAID, &["--json"]].concat());
    let error = r#"{"error":{"exit_code":66,"kind":"input","message":"2 rows are refused; nothing was written"}}"#;
    assert_eq!((refused.code, refused.stderr.trim_end()), (66, error));
    let expected = json!([
        {"line": 2, "code": "a b", "message": "a code has 1 to 100 bytes and contains no white space, no control character and no `#`"},
        {"line": 3, "code": "c", "message": "it has no label in the default language `en`"},
    ]);
    assert_eq!(refused.json()["refused"], expected);
}

#[test]
fn a_source_of_a_pack_is_refused_with_everything_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    drop(import(folder.path(), "tsv", &owner_file("tools.tsv"), SAID).expect_success());
    let out = folder.path().join("out");
    std::fs::write(out.join("codes/tools.tsv"), "code\tparents\nhand\tgarden\ngarden\thand\nhoe\tspade\nhoe\t\n")
        .unwrap();
    std::fs::write(out.join("labels/fr/tools.tsv"), "code\tlabel\nhand\t Main\n").unwrap();
    let settings = std::fs::read_to_string(out.join("pack.toml")).unwrap();
    std::fs::write(out.join("pack.toml"), settings.replace("codes =", "count = 4\ncodes =")).unwrap();
    for command in
        [&["pack", "check", text(&out)][..], &["pack", "build", text(&out), "-o", text(&folder.path().join("x"))]]
    {
        let refused = run(&folder.path().join("data"), command);
        assert_eq!((refused.code, refused.stdout.as_str()), (66, ""), "{refused:?}");
        insta::allow_duplicates! { insta::assert_snapshot!(refused.stderr, @r"
        error: codes/tools.tsv:5: code `hoe`: the code occurs again; it is already on line 4
        codes/tools.tsv:4: code `hoe`: `parents` names `spade`, which is not a code of this vocabulary
        codes/tools.tsv:2: code `hand`: the code is below itself: hand → garden → hand
        labels/en/tools.tsv:5: code `mattoc`: the vocabulary has no such code
        labels/fr/tools.tsv:2: code `hand`: `label` begins or ends with white space
        pack.toml: `urn:example:tools` has 3 codes; pack.toml declares 4
        "); }
    }
    assert!(!folder.path().join("x").exists());
}
