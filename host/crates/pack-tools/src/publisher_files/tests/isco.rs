//! Tables in ILO's layouts, with invented occupations.

use super::sample::{import_plain, refused};
use crate::publisher_files::ImportFormat::IscoCsv;
use daftar_domain::vocabulary::Completeness;

#[test]
fn upper_groups_come_of_the_rows_and_lost_zeros_come_back() {
    let table = b"ISCO_version,major,major_label,sub_major,sub_major_label,minor,minor_label,unit,description\r\n\
        ISCO-08,0,Guards,1,Guards of papers,11,Guards of registers,110,\"Keepers, of d\xe9p\xf4ts\"\r\n\
        ISCO-08,1,Writers,11,Writers of lists,111,\"Writers\nof long lists\",1111,Scribes\r\n\
        ISCO-08,1,Writers,11,Writers of lists,112,Copiers,1120,Copiers\r\n";
    let imported = import_plain(IscoCsv, table).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        imported.outline(),
        [
            "0: Guards",
            "01 < 0: Guards of papers",
            "011 < 01: Guards of registers",
            "0110 < 011: Keepers, of dépôts",
            "1: Writers",
            "11 < 1: Writers of lists",
            "111 < 11: Writers of long lists",
            "1111 < 111: Scribes",
            "112 < 11: Copiers",
            "1120 < 112: Copiers",
        ]
    );
    assert_eq!(imported.vocabulary().0.completeness, Completeness::Fragment, "it is not the whole of ISCO-08");
    let [incomplete, version] = imported.report.notes.as_slice() else { panic!("{:?}", imported.report.notes) };
    assert!(incomplete.contains("marked as partial"), "{incomplete}");
    assert!(
        version.contains("the pack's version is 2.0.0"),
        "the shipped pack must not pass for the newer one: {version}"
    );
}

#[test]
fn the_sheet_of_groups_is_read_by_level() {
    let table = "Level,ISCO 08 Code,Title EN,Definition\n1,0,Guards,\"Long,\nvery long\"\n2,1,Of papers,x\n3,11,Of registers,x\n4,110,Keepers,x\n,,,\n";
    let imported = import_plain(IscoCsv, table).unwrap_or_else(|error| panic!("{error}"));
    let expected = ["0: Guards", "01 < 0: Of papers", "011 < 01: Of registers", "0110 < 011: Keepers"];
    assert_eq!(imported.outline(), expected);
    assert!(imported.vocabulary().1.iter().all(|concept| concept.definitions.is_empty()), "ILO's definitions stay out");
}

#[test]
fn all_problems_are_reported_together() {
    let table =
        "Level,ISCO 08 Code,Title EN\n1,1,Writers\n2,x1,Letters\n5,1,Deep\n4,1234,Lost\n1,1,Others\n2,12,\n1,1,2,3\n";
    insta::assert_snapshot!(refused(IscoCsv, table), @r"
    FILE:3: code `x1`: `x1` is not a number of at most 2 digits, as its level has
    FILE:4: code `1`: its level is `5`, not 1, 2, 3 or 4
    FILE:5: code `1234`: its parent `123` is not a code of this vocabulary
    FILE:6: code `1`: it is already on line 2, with the title `Writers`
    FILE:7: code `12`: it has no title, or one with a control character
    FILE:8: code `1`: the row has 4 cells, the header 3
    ");
}

#[test]
fn a_file_of_an_unknown_table_or_encoding_is_rejected() {
    insta::assert_snapshot!(refused(IscoCsv, "a,b\n1,2\n"), @"FILE:1: the columns of neither table of ISCO-08 are there: `major`, `major_label`, `sub_major`, `sub_major_label`, `minor`, `minor_label`, `unit`, `description`, or `Level`, `ISCO 08 Code`, `Title EN`; there are: a, b");
    insta::assert_snapshot!(refused(IscoCsv, b"Level,ISCO 08 Code,Title EN\n1,1,\xc3\xa9\n1,2,\xff\n"), @"FILE:3: the line is not UTF-8, though other lines are");
    insta::assert_snapshot!(refused(IscoCsv, b"Level,ISCO 08 Code,Title EN\n1,1,\x81\n"), @"FILE:2: the byte 0x81 is no letter in latin-1");
}
