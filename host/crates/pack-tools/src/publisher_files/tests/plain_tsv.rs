//! Tables in our own format.

use super::sample::{import_bytes, import_plain};
use crate::publisher_files::ImportFormat::{Csv, Tsv};
use crate::publisher_files::{About, ImportOptions};
use daftar_domain::vocabulary::ConceptStatus;

fn options() -> ImportOptions {
    let about = About {
        namespace: Some("urn:example:tools".to_owned()),
        title: Some("Tools".to_owned()),
        licence: Some("CC0-1.0".to_owned()),
        edition: Some("2031-05".to_owned()),
        ..About::default()
    };
    ImportOptions { about, ..ImportOptions::default() }
}

fn refused(table: impl AsRef<[u8]>) -> String {
    import_bytes(Tsv, table, &options()).err().unwrap()
}

#[test]
fn one_line_contains_all_of_a_code() {
    let table = "code\tparents\tlabel[fr]\tlabel[en]\tdefinition[en]\turi\tstatus\treplaced_by\taliases\tselectable\tprop:kind\n\
        tools\t\tOutils\tTools\t\t\t\t\t\tno\t\n\
        hoe\ttools\tHoue\tHoe\tFor weeds.\thttp://ex.org/hoe\tactive\t\tmattock|adze\tyes\thand\n\
        mattoc\ttools\t\tMattoc\t\t\tinactive\thoe\t\t\t\n";
    let imported = import_bytes(Tsv, table, &options()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["tools: Tools", "hoe < tools: Hoe", "mattoc < tools: Mattoc"]);
    let (description, concepts) = imported.vocabulary();
    assert_eq!(description.languages, ["en", "fr"], "English comes first unless the options say otherwise");
    assert_eq!(concepts[1].aliases, ["mattock", "adze"]);
    assert_eq!(concepts[1].definitions[0].value, "For weeds.");
    assert_eq!(concepts[2].status, ConceptStatus::Inactive);
    assert_eq!(imported.source.manifest.version.to_string(), "2031.5.0");
    let french = ImportOptions { languages: vec!["fr".to_owned()], ..options() };
    let error = import_bytes(Tsv, table, &french).err().unwrap();
    assert_eq!(error, "FILE:4: code `mattoc`: it has no label in the default language `fr`");
}

#[test]
fn all_problems_are_reported_together() {
    let table = "code\tparents\tlabel[en]\tstatus\treplaced_by\taliases\n\
        a\t\tA\t\t\tb\n\
        b\tz\tB\t\t\t\n\
        c\td\tC\t\t\t\n\
        d\tc\tD\t\t\t\n\
        e\t\t\t\t\t\n\
        f\t\tF\tgone\t\t\n\
        a\t\tAgain\t\t\t\n\
        g h\t\tG\t\t\t\n\
        i\t\tI\t\ta\t\n\
        j\tb\tJ\t\t\t\n\
        k\t\tK\u{7}\t\t\t\n\
        l\t\tL\t\t\t\ttoo\tmany\n";
    insta::assert_snapshot!(refused(table), @r"
    FILE:2: code `a`: its other spelling `b` is already used by the code `b`
    FILE:3: code `b`: its parent `z` is not a code of this vocabulary
    FILE:4: code `c`: the code is below itself: c → d → c
    FILE:5: code `d`: the code is below itself: c → d → c
    FILE:6: code `e`: it has no label in the default language `en`
    FILE:7: code `f`: its status is `gone`, not active or inactive
    FILE:8: code `a`: the code occurs again; it is already on line 2
    FILE:9: code `g h`: a code has 1 to 100 bytes and contains no white space, no control character and no `#`
    FILE:10: code `i`: its successor `a` was refused
    FILE:11: code `j`: its parent `b` was refused
    FILE:12: code `k`: its text in `en` contains a control character
    FILE:13: code `l`: the row has 8 cells, the header 6
    ");
    let long = format!("code\tlabel[en]\na\t{}\n", "x".repeat(2_049));
    insta::assert_snapshot!(refused(long), @"FILE:2: code `a`: its label has 2049 bytes; the limit is 2048");
}

#[test]
fn at_most_a_thousand_problems_are_listed() {
    let rows: String = (0..1_500).map(|number| format!("c{number}\tnowhere\tX\n")).collect();
    let error = refused(format!("code\tparents\tlabel[en]\n{rows}"));
    assert_eq!(error.lines().count(), 1_001);
    assert!(error.ends_with("and 500 more"), "{error}");
}

#[test]
fn the_header_has_to_be_right() {
    insta::assert_snapshot!(refused("name\tlabel[en]\n"), @"FILE:1: the column `code` is missing; there are: name, label[en]");
    insta::assert_snapshot!(refused("code\tlabel\n"), @"FILE:1: the column `label` is not known: known are code, parents, label[<language>], definition[<language>], uri, status, replaced_by, aliases, selectable and prop:<key>");
    insta::assert_snapshot!(refused("code\tlabel[English]\n"), @"FILE:1: the column `label[English]` is not known: the brackets must contain a language tag, such as en");
    insta::assert_snapshot!(refused("code\tcode\tlabel[en]\n"), @"FILE:1: the column `code` occurs again");
    insta::assert_snapshot!(refused("code\turi\n"), @"FILE:1: no column has labels: name one label[en], or use another language");
    insta::assert_snapshot!(refused("code\tlabel[en]\n"), @"FILE: no code of `urn:example:tools` is left of this file");
    insta::assert_snapshot!(refused(b"code\tlabel[en]\na\t\xff\n"), @"FILE:2: the line is not UTF-8");
}

#[test]
fn missing_metadata_of_a_list_is_required_as_options() {
    insta::assert_snapshot!(import_plain(Tsv, "code\tlabel[en]\na\tA\n").err().unwrap(), @"--namespace, --title, --licence must be given: a table does not contain them");
    for (about, what) in [
        (About { namespace: Some("a b".to_owned()), ..options().about }, "--namespace is `a b`"),
        (About { pack_version: Some("1".to_owned()), ..options().about }, "--pack-version is `1`"),
        (About { pack_name: Some("A".to_owned()), ..options().about }, "--name is `A`"),
        (About { domain: Some(" x".to_owned()), ..options().about }, "--domain is ` x`"),
    ] {
        let options = ImportOptions { about, ..ImportOptions::default() };
        let error = import_bytes(Tsv, "code\tlabel[en]\na\tA\n", &options).err().unwrap();
        assert!(error.contains(what), "{error}");
    }
    let options = ImportOptions { only: vec!["urn:other".to_owned()], ..options() };
    let error = import_bytes(Tsv, "code\tlabel[en]\na\tA\n", &options).err().unwrap();
    assert_eq!(error, "--only is `urn:other`, which is not a vocabulary of this file: urn:example:tools");
}

#[test]
fn texts_are_normalized_to_one_line_and_normal_form() {
    let table = "code\tlabel[en]\na\t Cafe\u{301} \u{a0}\n";
    let imported = import_bytes(Tsv, table, &options()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["a: Café"]);
    assert_eq!(imported.report.texts_changed, 1);
}

#[test]
fn a_spreadsheet_s_csv_is_read_with_commas_and_semicolons_quotes_and_a_mark() {
    for delimiter in [',', ';'] {
        let table = "\u{feff}code,parents,label[en],definition[en]\r\n\
            tools,,Tools,\r\n\
            hoe,tools,\"Hoe; or, a \"\"mattock\"\"\",\"For\r\nweeds.\"\r\n\
            ,,,\r\n\
            rake,tools,Rake,\r\n";
        // The commas between cells; the one within quotation marks stays.
        let table = table.replace("or, a", "or\u{1} a").replace(',', &delimiter.to_string()).replace('\u{1}', ",");
        let imported = import_bytes(Csv, &table, &options()).unwrap_or_else(|error| panic!("{error}"));
        let expected = ["tools: Tools", "hoe < tools: Hoe; or, a \"mattock\"", "rake < tools: Rake"];
        assert_eq!(imported.outline(), expected, "{delimiter}");
    }
}

#[test]
fn an_unreadable_csv_is_reported_with_its_lines() {
    let refused = |table: &[u8]| import_bytes(Csv, table, &options()).err().unwrap();
    let latin = refused(b"code,label[en]\na,A\nb,caf\xe9\n");
    assert!(latin.contains(":3: ") && latin.contains("CSV UTF-8"), "{latin}");
    assert!(refused(b"code,label[en]\na,A,B\n").contains(":2: code `a`: the row has 3 cells, the header 2"));
    assert!(refused(b"\n\n").contains("the header line is missing"));
    assert!(refused(b"code\tlabel[en]\na\tA\n").contains("the column `code` is missing"));
}
