//! Lists in SIX's layout, with invented currencies.

use super::sample::{import_plain, refused};
use crate::publisher_files::ImportFormat::SixXml;

fn entry(name: &str, code: &str, number: &str, units: &str) -> String {
    format!(
        "<CcyNtry><CtryNm>SOMEWHERE</CtryNm><CcyNm>{name}</CcyNm><Ccy>{code}</Ccy><CcyNbr>{number}</CcyNbr>\
         <CcyMnrUnts>{units}</CcyMnrUnts></CcyNtry>\n"
    )
}

fn list(entries: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ISO_4217 Pblshd=\"2031-02-03\"><CcyTbl>\n{entries}</CcyTbl></ISO_4217>\n"
    )
}

#[test]
fn one_code_represents_all_its_countries() {
    let entries = [
        entry("Crown &amp; Half&#x2d;Crown", "ZZA", "008", "2"),
        entry("Crown &amp; Half&#x2d;Crown", "ZZA", "008", "2"),
        "<CcyNtry><CtryNm>ICE</CtryNm><CcyNm>No universal currency</CcyNm></CcyNtry>".to_owned(),
        "<CcyNtry><CcyNm IsFund=\"true\">Unit</CcyNm><Ccy>ZZU</Ccy><CcyNbr>990</CcyNbr><CcyMnrUnts>4</CcyMnrUnts></CcyNtry>".to_owned(),
        entry("Gold", "XAU", "959", "N.A."),
    ];
    let imported = import_plain(SixXml, list(&entries.concat())).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["XAU: Gold", "ZZA: Crown & Half-Crown", "ZZU: Unit"]);
    let (description, concepts) = imported.vocabulary();
    assert_eq!(description.version, "2031-02-03");
    assert_eq!(concepts[1].aliases, ["008"]);
    let property = |index: usize, key: &str| {
        let found = concepts[index].properties.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!((property(0, "minor_units"), property(0, "kind")), (None, Some("metal")));
    assert_eq!((property(1, "minor_units"), property(1, "kind")), (Some("2"), Some("currency")));
    assert_eq!(property(2, "kind"), Some("fund"));
    let rules: Vec<u64> = imported.left_out().iter().map(|(_, rows)| *rows).collect();
    assert_eq!(rules, [1, 1]);
}

#[test]
fn all_problems_are_reported_together() {
    let entries = [
        entry("Crown", "ZZA", "008", "2"),
        entry("Crone", "ZZA", "008", "2"),
        entry("Lower", "zzb", "009", "2"),
        entry("Number", "ZZC", "9", "2"),
        entry("Units", "ZZD", "010", "many"),
        entry("", "ZZE", "011", "2"),
        entry("Number of another", "ZZF", "008", "2"),
    ];
    insta::assert_snapshot!(refused(SixXml, list(&entries.concat())), @r#"
    FILE:4: code `ZZA`: it is on line 3 with another name, number or units
    FILE:5: code `zzb`: a currency's code is three capitals
    FILE:6: code `ZZC`: its number is `9`, not three digits
    FILE:7: code `ZZD`: its minor units are `many`, not a digit or N.A.
    FILE:8: code `ZZE`: it has no name, or one with a control character
    FILE:9: code `ZZF`: its other spelling `008` is already used by the code `ZZA`
    "#);
}

#[test]
fn no_document_type_is_read() {
    let bomb = "<?xml version=\"1.0\"?>\n<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>\n<ISO_4217 Pblshd=\"2031-02-03\">&b;</ISO_4217>";
    insta::assert_snapshot!(refused(SixXml, bomb), @"FILE:2: it is not valid XML of this kind: it has a document type; SIX's list has none, and its entities are not expanded");
    insta::assert_snapshot!(refused(SixXml, list("<CcyNtry><CcyNm>&b;</CcyNm></CcyNtry>")), @"FILE:3: it is not valid XML of this kind: the entity `&b;` is unknown");
}

#[test]
fn malformed_documents_are_rejected() {
    let whole = list(&entry("Crown", "ZZA", "008", "2"));
    insta::assert_snapshot!(refused(SixXml, &whole[..whole.len() - 20]), @"FILE:4: it is not valid XML of this kind: syntax error: tag not closed: `>` not found before end of input");
    insta::assert_snapshot!(refused(SixXml, "<a></b>"), @"FILE:1: it is not valid XML of this kind: ill-formed document: expected `</a>`, but `</b>` was found");
    insta::assert_snapshot!(refused(SixXml, "<a>".repeat(20)), @"FILE:1: it is not valid XML of this kind: elements are more than 16 deep");
    insta::assert_snapshot!(refused(SixXml, "<a/>"), @"FILE: the document is not SIX's list: the root `ISO_4217` with `Pblshd` is missing");
    insta::assert_snapshot!(refused(SixXml, list("")), @"FILE: no code of `urn:iso:std:iso:4217` is left of this file");
    insta::assert_snapshot!(refused(SixXml, b"<a>\n\xff</a>"), @"FILE:2: the line is not UTF-8");
}

#[test]
fn the_line_of_a_late_entry_is_reported() {
    let many = entry("Crown", "ZZA", "008", "2").repeat(15_000) + &entry("Crown", "zzb", "009", "2");
    assert_eq!(refused(SixXml, list(&many)), "FILE:15003: code `zzb`: a currency's code is three capitals");
}
