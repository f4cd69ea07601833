//! Lists in the layouts of iso-codes and of SIL, with invented places and languages.

use super::sample::{import_plain, refused};
use crate::publisher_files::ImportFormat::{IsoJson, SilTab};
use daftar_domain::vocabulary::ConceptStatus;

#[test]
fn countries_go_by_two_letters_and_are_found_by_the_other_codes() {
    let list = r#"{"other": {"3166-1": [1]}, "3166-1": [
        {"alpha_2": "QB", "alpha_3": "QBB", "numeric": "002", "name": "Borduria, Republic of", "common_name": "Borduria"},
        {"alpha_2": "QA", "alpha_3": "QAA", "numeric": "001", "name": "Syldavia", "flag": "x"}
    ]}"#;
    let imported = import_plain(IsoJson, list).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["QA: Syldavia", "QB: Borduria"]);
    assert_eq!(imported.vocabulary().1[0].aliases, ["QAA", "001"]);
    assert!(imported.vocabulary().0.version.starts_with("sha256-"), "the list says no date");
}

#[test]
fn languages_without_two_letters_are_left_out() {
    for member in ["639-2", "639-3"] {
        let list = format!(
            r#"{{"{member}": [{{"alpha_2": "qx", "alpha_3": "qxt", "bibliographic": "qxb", "name": "Xish"}},
            {{"alpha_3": "qaa-qtz", "name": "Reserved"}}, {{"alpha_2": "sh", "alpha_3": "hbs", "name": "Old", "scope": "M"}}]}}"#
        );
        let imported = import_plain(IsoJson, list).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(imported.outline(), ["qx: Xish", "sh: Old"]);
        assert_eq!(imported.vocabulary().1[0].aliases, ["qxt", "qxb"]);
        assert_eq!(imported.vocabulary().1[1].status, ConceptStatus::Inactive);
        assert_eq!(imported.left_out(), [("a language without a code of two letters".to_owned(), 1)]);
    }
}

#[test]
fn currencies_go_by_three_letters() {
    let list = r#"{"4217": [{"alpha_3": "ZZA", "numeric": "008", "name": "Crown"}]}"#;
    let imported = import_plain(IsoJson, list).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["ZZA: Crown"]);
}

#[test]
fn all_invalid_entries_are_reported_together() {
    let list = "{\"3166-1\": [\n{\"alpha_2\": \"QA\", \"name\": 1},\n{\"alpha_2\": \"qa\", \"name\": \"x\"},\n{\"name\": \"x\"},\n7,\n\
        {\"alpha_2\": \"QC\", \"name\": \" \"},\n{\"alpha_2\": \"QD\", \"name\": \"A\"},\n{\"alpha_2\": \"QD\", \"name\": \"B\"}]}";
    insta::assert_snapshot!(refused(IsoJson, list), @r#"
    FILE:2: `name`: invalid type: integer `1`, expected a string
    FILE:3: code `qa`: `qa` is not a valid code of 3166-1
    FILE:4: `` is not a valid code of 3166-1
    FILE:5: `.`: invalid type: integer `7`, expected struct Entry
    FILE:6: code `QC`: it has no name, or one with a control character
    FILE:8: code `QD`: the code occurs again; it is already on line 7
    "#);
}

#[test]
fn malformed_json_is_rejected() {
    for (document, what) in [
        ("[]", "not a JSON object"),
        ("{}", "none of the lists 3166-1, 639-2, 639-3, 4217"),
        ("{\"3166-1\": {}}", "none of the lists"),
        ("{\"3166-1\": [{\"alpha_2\": \"QA\",", "FILE:1: the JSON is broken: EOF"),
        ("{\"3166-1\": [", "the JSON is broken"),
        ("{\"3166-1\": [1 2]}", "`,` or `]` is missing"),
        ("{\"3166-1\" 1}", "`:` is missing"),
        ("{\"x\": \n\n tru}", "FILE:3: the JSON is broken"),
        ("{\"3166-1\": []}\nx", "FILE:2: the JSON is broken: trailing characters"),
    ] {
        let error = refused(IsoJson, document);
        assert!(error.contains(what), "{document}: {error}");
    }
    let deep = format!("{{\"3166-1\": [{}]}}", "{\"alpha_2\":".repeat(100_000));
    assert!(refused(IsoJson, deep).contains("the JSON is broken"));
}

const SIL: &str = "Id\tPart2b\tPart2t\tPart1\tScope\tLanguage_Type\tRef_Name\tComment\r\n";

#[test]
fn the_table_of_sil_gives_languages_with_two_letters() {
    let table = format!(
        "{SIL}qxt\tqxb\tqxt\tqx\tI\tL\tXish \"old\"\t\r\nqyy\t\t\t\tI\tL\tYish\t\r\nqzz\tqzz\tqzz\tqz\tI\tL\tZish\t\r\n"
    );
    let imported = import_plain(SilTab, table).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["qx: Xish \"old\"", "qz: Zish"]);
    let aliases: Vec<_> = imported.vocabulary().1.iter().map(|concept| concept.aliases.join(" ")).collect();
    assert_eq!(aliases, ["qxt qxb", "qzz"]);
}

#[test]
fn a_table_of_another_kind_or_with_invalid_rows_is_rejected() {
    insta::assert_snapshot!(refused(SilTab, "Id\tName\n"), @"FILE:1: the column `Part1` is missing; there are: Id, Name");
    insta::assert_snapshot!(refused(SilTab, format!("{SIL}qxt\t\t\tQX\tI\tL\tXish\nqyy\t\t\tqy\tI\tL\t\nqyy\t\t\tqy\n")), @r#"
    FILE:2: code `QX`: `QX` is not two lower-case letters
    FILE:3: code `qy`: it has no name, or one with a control character
    FILE:4: code `qy`: it has no name, or one with a control character
    "#);
}
