//! Tables in WHO's layouts, with invented diseases.

use super::sample::{Imported, import_bytes, import_plain, refused};
use crate::publisher_files::ImportFormat::WhoTabulation;
use crate::publisher_files::ImportOptions;

const HEADER: &str = "\u{feff}Foundation URI\tLinearization URI\tCode\tBlockId\tTitle\tClassKind\tDepthInKind\tIsResidual\t\
    ChapterNo\tBrowserLink\tisLeaf\tPrimary tabulation\tGrouping1\tVersion:2031 Mar 04 - 22:30 UTC\r\n";

fn row(uri: &str, code: &str, block: &str, title: &str, kind: &str, residual: &str, chapter: &str) -> String {
    let foundation = if residual == "False" { format!("http://ex.org/f/{uri}") } else { String::new() };
    format!(
        "{foundation}\thttp://ex.org/mms/{uri}\t{code}\t{block}\t\"{title}\"\t{kind}\t1\t{residual}\t{chapter}\t\"=a(\"\"b\"\")\"\tTrue\r\n"
    )
}

/// A chapter, a block, codes with and without dots, a residual one, an extension chapter with a block without a name.
fn diseases() -> String {
    [
        HEADER.to_owned(),
        row("1", "", "", "Ailments of registers", "chapter", "False", "01"),
        row("2", "", "BlockL1-1A0", "- Ailments of \"\"paper\"\"", "block", "False", "01"),
        row("3", "1A00", "", "- - Foxing", "category", "False", "01"),
        row("4", "1A00.0", "", "- - - Foxing,  severe", "category", "False", "01"),
        row("5", "1A00.Z", "", "- - - Foxing, unspecified", "category", "TRUE", "01"),
        row("6", "1A01", "", "- Dust", "category", "False", "01"),
        row("7", "", "", "Extensions", "chapter", "False", "X"),
        row("8", "", "", "- Where", "block", "False", "X"),
        row("9", "XA7144", "", "- - Spine", "category", "False", "X"),
    ]
    .concat()
}

#[test]
fn the_parent_of_a_row_is_the_closest_row_with_one_hyphen_less() {
    let imported = import_plain(WhoTabulation, diseases()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        imported.outline(),
        [
            "chapter:01: Ailments of registers",
            "BlockL1-1A0 < chapter:01: Ailments of \"paper\"",
            "1A00 < BlockL1-1A0: Foxing",
            "1A00.0 < 1A00: Foxing,  severe",
            "1A00.Z < 1A00: Foxing, unspecified",
            "1A01 < chapter:01: Dust",
            "chapter:X: Extensions",
            "http://ex.org/f/8 < chapter:X: Where",
            "XA7144 < http://ex.org/f/8: Spine",
        ]
    );
    let (description, concepts) = imported.vocabulary();
    assert_eq!((description.version.as_str(), description.licence.as_str()), ("2031-03", "CC-BY-ND-3.0-IGO"));
    assert_eq!(imported.source.manifest.version.to_string(), "2031.3.0");
    let selectable: Vec<bool> = concepts.iter().map(|concept| concept.is_selectable).collect();
    assert_eq!(selectable, [false, false, true, true, true, true, false, false, true]);
    assert_eq!(concepts[2].uri.as_deref(), Some("http://ex.org/f/3"));
    assert_eq!(concepts[4].uri.as_deref(), Some("http://ex.org/mms/5"), "residual codes have no other URI");
}

#[test]
fn extension_codes_are_left_out_when_asked() {
    let options = ImportOptions { without_extension_codes: true, ..ImportOptions::default() };
    let imported = import_bytes(WhoTabulation, diseases(), &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline().len(), 6);
    assert_eq!(imported.left_out(), [("an extension code, or a heading of them".to_owned(), 3)]);
}

#[test]
fn columns_go_by_name_and_other_places_than_the_primary_are_skipped() {
    let table = "Title\tPrimaryLocation\tLinearization (release) URI\tFoundation URI\tClassKind\tChapterNo\tCode\tBlockId\tVersion:x\n\
        \"Ailments\"\tTrue\tl1\tf1\tchapter\t01\t\t\n\
        \"- Foxing\"\tTrue\tl2\tf2\tcategory\t01\t1A00\n\
        \"- Dust, elsewhere\"\tFALSE\tl3\tf3\tcategory\t01\t1A00\n\
        \"- Not yet\"\tTrue\tl4\tf4\tcategory\t01\t_NOCODEASSIGNED\n";
    let imported = import_plain(WhoTabulation, table).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["chapter:01: Ailments", "1A00 < chapter:01: Foxing"]);
    assert_eq!(
        imported.left_out(),
        [("a location that is not the primary one".to_owned(), 1), ("a category without a code so far".to_owned(), 1)]
    );
    assert_eq!(imported.vocabulary().0.version, "x");
}

fn functions() -> Imported {
    let table = [
        HEADER.to_owned(),
        row("0", "b", "", "BODY FUNCTIONS", "chapter", "False", "b"),
        row("1", "", "", "Of all kinds", "chapter", "False", "b"),
        row("2", "b1", "", "- OF PAPER", "chapter", "False", "b"),
        row("3", "b110-b139", "", "- - General", "block", "False", "b"),
        row("4", "b114", "", "- - - Folding", "category", "False", "b"),
        row("5", "b1142", "", "- - - - Folding twice", "category", "False", "b"),
        row("6", "b11420", "", "- - - - - Folding back", "category", "False", "b"),
        row("7", "s1", "", "- A structure", "chapter", "False", "s"),
        row("8", "d1", "", "- Reading", "chapter", "False", "d"),
    ];
    import_plain(WhoTabulation, table.concat()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn parents_of_icf_codes_follow_from_their_digits_in_two_vocabularies() {
    let imported = functions();
    let expected = [
        "b1: OF PAPER",
        "b114 < b1: Folding",
        "b1142 < b114: Folding twice",
        "b11420 < b1142: Folding back",
        "d1: Reading",
    ];
    assert_eq!(imported.outline(), expected);
    assert_eq!(imported.concepts("urn:who:icf:d").len(), 1);
    let rules: Vec<u64> = imported.left_out().iter().map(|(_, rows)| *rows).collect();
    assert_eq!(rules, [1, 1, 1, 1], "{:?}", imported.left_out());
    let settings = String::from_utf8(imported.files()[std::path::Path::new("pack.toml")].clone()).unwrap();
    assert!(settings.contains("hierarchy = \"icf\""), "{settings}");
}

#[test]
fn the_same_file_gives_the_same_bytes_packed_or_not() {
    use std::io::Write as _;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(diseases().as_bytes()).unwrap();
    let packed = import_plain(WhoTabulation, packed.finish().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let plain = import_plain(WhoTabulation, diseases()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(packed.files(), plain.files());
    assert_eq!(packed.pack(), plain.pack());
}

#[test]
fn all_problems_are_reported_together_with_line_and_code() {
    let table = [
        diseases(),
        row("10", "1A0", "", "- Too short", "category", "False", "01"),
        row("11", "1A00", "", "- Again", "category", "False", "01"),
        row("12", "1A02", "", "- - - - Too deep", "category", "False", "01"),
        row("13", "", "", "- No kind", "category", "False", "01"),
        row("14", "1A03", "", "- ", "category", "False", "01"),
        "a\tb\t1A04\t\t\"- Unfinished\n".to_owned(),
    ];
    insta::assert_snapshot!(refused(WhoTabulation, table.concat()), @r"
    FILE:11: code `1A0`: `1A0` is not a valid code of ICD-11
    FILE:12: code `1A00`: the code occurs again; it is already on line 4
    FILE:13: code `1A02`: its depth is 4, but no row of depth 3 precedes it
    FILE:14: the row has no code, and ClassKind is `category`, not chapter or block
    FILE:15: code `1A03`: it has no title
    FILE:16: a quoted cell does not end on its line
    ");
}

#[test]
fn rejected_rows_can_be_left_out() {
    let table = [diseases(), row("10", "1A0", "", "- Too short", "category", "False", "01")].concat();
    let options = ImportOptions { leave_out_refused: true, ..ImportOptions::default() };
    let imported = import_bytes(WhoTabulation, table, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline().len(), 9);
    assert_eq!((imported.report.refused.len(), imported.report.refused[0].line), (1, Some(11)));
}

/// The outline, and the rejected rows, of a table whose rejected rows are left out.
fn what_is_left(rows: &[String]) -> (Vec<String>, Vec<String>) {
    let options = ImportOptions { leave_out_refused: true, ..ImportOptions::default() };
    let table = [&[HEADER.to_owned()][..], rows].concat().concat();
    let imported = import_bytes(WhoTabulation, table, &options).unwrap_or_else(|error| panic!("{error}"));
    let refused = imported.report.refused.iter();
    let refused = refused.map(|refusal| format!("{}: {}", refusal.line.unwrap(), refusal.reason));
    (imported.outline(), refused.collect())
}

#[test]
fn rows_below_a_rejected_row_get_no_other_parent() {
    let (outline, refused) = what_is_left(&[
        row("1", "", "", "Ailments", "chapter", "False", "01"),
        row("2", "", "BlockL1-1A0", "- Of paper", "block", "False", "01"),
        row("3", "1A00", "", "- - Foxing", "category", "False", "01"),
        row("4", "", "BlockL1-1B0", "- Of \u{7}ink", "block", "False", "01"),
        row("5", "1B00", "", "- - Fading", "category", "False", "01"),
        row("6", "1B00.0", "", "- - - Fading, severe", "category", "False", "01"),
        row("7", "1A01", "", "- Dust", "category", "False", "01"),
    ]);
    assert_eq!(
        outline,
        [
            "chapter:01: Ailments",
            "BlockL1-1A0 < chapter:01: Of paper",
            "1A00 < BlockL1-1A0: Foxing",
            "1A01 < chapter:01: Dust"
        ]
    );
    let below = "it is below a row that was rejected or left out";
    let expected = ["5: its title contains a control character", &format!("6: {below}"), &format!("7: {below}")];
    assert_eq!(refused, expected);
}

#[test]
fn after_a_row_of_unknown_depth_the_rest_of_the_chapter_is_rejected() {
    let unfinished = "f\tl\t\tBlockL1-1B0\t\"- Of ink\n".to_owned();
    let nameless = row("4", "", "BlockL1-1B0", "", "block", "False", "01");
    let too_wide = format!("f{}\n", "\t".repeat(40));
    for (broken, reason) in [
        (unfinished, "5: a quoted cell does not end on its line"),
        (nameless, "5: it has no title"),
        (too_wide, "5: the row has 41 cells, the header 14"),
    ] {
        let (outline, refused) = what_is_left(&[
            row("1", "", "", "Ailments", "chapter", "False", "01"),
            row("2", "", "BlockL1-1A0", "- Of paper", "block", "False", "01"),
            row("3", "1A00", "", "- - Foxing", "category", "False", "01"),
            broken,
            row("5", "1B00", "", "- - Fading", "category", "False", "01"),
            row("6", "1A01", "", "- Dust", "category", "False", "01"),
            row("7", "", "", "Mishaps", "chapter", "False", "02"),
            row("8", "2A00", "", "- Spilt tea", "category", "False", "02"),
        ]);
        let expected = [
            "chapter:01: Ailments",
            "BlockL1-1A0 < chapter:01: Of paper",
            "1A00 < BlockL1-1A0: Foxing",
            "chapter:02: Mishaps",
            "2A00 < chapter:02: Spilt tea",
        ];
        assert_eq!(outline, expected, "{reason}");
        let lost = "an earlier row of its chapter could not be read, and it may be below that row";
        assert_eq!(refused, [reason, &format!("6: {lost}"), &format!("7: {lost}")]);
    }
}

#[test]
fn rows_below_a_location_that_is_not_primary_get_no_other_parent() {
    let table = "Title\tPrimaryLocation\tLinearization (release) URI\tFoundation URI\tClassKind\tChapterNo\tCode\tBlockId\tVersion:x\n\
        \"Ailments\"\tTrue\tl1\tf1\tchapter\t01\t\t\n\
        \"- Foxing\"\tTrue\tl2\tf2\tcategory\t01\t1A00\n\
        \"- Dust, elsewhere\"\tFALSE\tl3\tf3\tcategory\t01\t1B00\n\
        \"- - Dust, elsewhere as well\"\tFALSE\tl4\tf4\tcategory\t01\t1B00.0\n\
        \"- - Dust, fine\"\tTrue\tl5\tf5\tcategory\t01\t1B00.1\n";
    let reason = "FILE:6: code `1B00.1`: it is below a row that was rejected or left out";
    assert_eq!(refused(WhoTabulation, table), reason);
}

#[test]
fn a_file_of_another_kind_is_rejected() {
    insta::allow_duplicates! {
        assert_eq!(refused(WhoTabulation, ""), "FILE: the file is empty");
        assert_eq!(refused(WhoTabulation, "PK\x03\x04rest"), "FILE: it is a zip archive or a spreadsheet; unpack the archive, or save the sheet as CSV");
    }
    insta::assert_snapshot!(refused(WhoTabulation, "Title\tCode\nx\ty\n"), @"FILE:1: the column `Foundation URI` is missing; there are: Title, Code");
    let huge = format!("{HEADER}{}", "x".repeat(1 << 21));
    insta::assert_snapshot!(refused(WhoTabulation, huge), @"FILE:2: the line has more than 1048576 bytes: is this a file of this format?");
    let mut bytes = diseases().into_bytes();
    bytes.extend_from_slice(b"a\tb\t\xff\n");
    insta::assert_snapshot!(refused(WhoTabulation, bytes), @"FILE:11: the line is not UTF-8");
    insta::assert_snapshot!(refused(WhoTabulation, &diseases().as_bytes()[..0x40]), @"FILE:1: the column `ChapterNo` is missing; there are: Foundation URI, Linearization URI, Code, BlockId, Title, ClassKind");
    // A truncated gzip file.
    insta::assert_snapshot!(refused(WhoTabulation, b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b"), @"FILE:1: reading failed: incomplete deflate stream");
}
