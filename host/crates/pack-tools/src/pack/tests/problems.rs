//! Invalid sources: each problem is reported with its file, line and code.

use super::folder::PackFolder;
use crate::pack::check;

/// The formatted problems of a folder.
fn problems(folder: PackFolder) -> Vec<String> {
    match check(folder.path()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems().iter().map(ToString::to_string).collect(),
    }
}

/// Asserts that a folder has exactly this problem.
fn assert_problem(folder: PackFolder, message: &str) {
    assert_eq!(problems(folder), [message]);
}

fn codes(table: &str) -> PackFolder {
    PackFolder::valid().with("codes/crops.tsv", table)
}

#[test]
fn a_valid_folder_has_no_problems() {
    assert_eq!(problems(PackFolder::valid()), Vec::<String>::new());
}

#[test]
fn ignores_additions_of_spreadsheets() {
    let folder = PackFolder::valid()
        .with("codes/crops.tsv", "\u{feff}code\tparents\r\ncereals\t\r\nmaize\tcereals\r\n")
        .with("labels/fr/crops.tsv", "code\tlabel\n\nmaize\tMaïs");
    assert_eq!(problems(folder), Vec::<String>::new());
}

#[test]
fn a_code_that_occurs_again() {
    assert_problem(
        codes("code\tparents\ncereals\t\nmaize\tcereals\nmaize\tcereals\n"),
        "codes/crops.tsv:4: code `maize`: the code occurs again; it is already on line 3",
    );
}

#[test]
fn a_missing_parent() {
    assert_problem(
        codes("code\tparents\ncereals\t\nmaize\tcereals|grasses\n"),
        "codes/crops.tsv:3: code `maize`: `parents` names `grasses`, which is not a code of this vocabulary",
    );
}

#[test]
fn codes_that_are_below_themselves() {
    assert_problem(
        codes("code\tparents\ncereals\tmaize\nmaize\tcereals\n"),
        "codes/crops.tsv:2: code `cereals`: the code is below itself: cereals → maize → cereals",
    );
    assert_problem(
        codes("code\tparents\ncereals\t\nmaize\tmaize\n"),
        "codes/crops.tsv:3: code `maize`: the code is below itself: maize → maize",
    );
}

#[test]
fn a_long_chain_of_parents_is_no_problem() {
    let mut table = String::from("code\tparents\ncereals\t\nmaize\tcereals\nc0\tmaize\n");
    let mut labels = String::from("code\tlabel\ncereals\tCereals\nmaize\tMaize\nc0\tX\n");
    for number in 1..50_000 {
        table.push_str(&format!("c{number}\tc{}\n", number - 1));
        labels.push_str(&format!("c{number}\tX\n"));
    }
    assert_eq!(problems(codes(&table).with("labels/en/crops.tsv", labels)), Vec::<String>::new());
}

#[test]
fn several_parents_that_meet_again_are_no_cycle() {
    let folder = codes("code\tparents\ncereals\t\nmaize\tcereals\na\tcereals\nb\tmaize|a\n")
        .with("labels/en/crops.tsv", "code\tlabel\ncereals\tCereals\nmaize\tMaize\na\tA\nb\tB\n");
    assert_eq!(problems(folder), Vec::<String>::new());
}

#[test]
fn a_label_of_an_unknown_code() {
    assert_problem(
        PackFolder::valid().with("labels/fr/crops.tsv", "code\tlabel\nmaize\tMaïs\nrye\tSeigle\n"),
        "labels/fr/crops.tsv:3: code `rye`: the vocabulary has no such code",
    );
}

#[test]
fn a_code_without_a_label_in_the_default_language() {
    assert_problem(
        PackFolder::valid().with("labels/en/crops.tsv", "code\tlabel\ncereals\tCereals\n"),
        "codes/crops.tsv:3: code `maize`: there is no label in the default language `en`",
    );
}

#[test]
fn a_code_labelled_twice_or_emptily() {
    let folder = PackFolder::valid().with("labels/fr/crops.tsv", "code\tlabel\nmaize\tMaïs\nmaize\tMaïs\ncereals\t\n");
    assert_eq!(
        problems(folder),
        [
            "labels/fr/crops.tsv:3: code `maize`: the line for the code `maize` occurs again",
            "labels/fr/crops.tsv:4: code `cereals`: the label is empty; leave the line out where there is none",
        ]
    );
}

#[test]
fn text_with_control_characters_or_out_of_normal_form() {
    let decomposed = "Mai\u{308}s";
    let table = format!("code\tlabel\ncereals\tCé\u{7}réales\nmaize\t{decomposed}\n");
    assert_eq!(
        problems(PackFolder::valid().with("labels/fr/crops.tsv", table)),
        [
            "labels/fr/crops.tsv:2: code `cereals`: `label` contains the control character '\\u{7}'",
            "labels/fr/crops.tsv:3: code `maize`: `label` is not in Unicode normal form C",
        ]
    );
}

#[test]
fn bytes_that_are_not_utf_8() {
    assert_problem(
        PackFolder::valid().with("labels/fr/crops.tsv", b"code\tlabel\nmaize\tMa\xefs\n"),
        "labels/fr/crops.tsv:2: the line is not UTF-8",
    );
}

#[test]
fn columns_that_are_unknown_missing_or_repeated() {
    assert_problem(
        codes("code\tparent\ncereals\t\nmaize\t\n").with_setting("hierarchical = true", ""),
        "codes/crops.tsv:1: there is no column `parent`; known are code, parents, status, replaced_by, aliases, uri, \
         selectable and prop:<key>",
    );
    assert!(problems(codes("kode\n")).contains(&"codes/crops.tsv:1: the column `code` is missing".to_owned()));
    assert_problem(
        codes("code\tparents\tparents\ncereals\t\t\nmaize\tcereals\t\n"),
        "codes/crops.tsv:1: the column `parents` occurs again",
    );
    assert!(problems(codes("")).contains(&"codes/crops.tsv:1: the header line is missing".to_owned()));
}

#[test]
fn a_line_with_too_few_or_too_many_cells() {
    for (line, cells) in [("maize", 1), ("maize\tcereals\t", 3)] {
        let messages = problems(codes(&format!("code\tparents\ncereals\t\n{line}\n")));
        let message = format!(
            "codes/crops.tsv:3: code `maize`: the line has {cells} cells, the header 2; empty cells at the end keep their tab"
        );
        assert_eq!(messages.first(), Some(&message));
    }
}

#[test]
fn codes_that_cannot_be_codes() {
    let long = "x".repeat(101);
    for code in ["", "a b", "a|b", "a#b", &long] {
        let messages = problems(codes(&format!("code\tparents\ncereals\t\nmaize\tcereals\n{code}\t\n")));
        assert_eq!(messages.len(), 1, "{code}: {messages:?}");
        assert!(messages[0].contains("a code is 1 to 100 bytes"), "{messages:?}");
    }
    let longest = "x".repeat(100);
    let folder = codes(&format!("code\tparents\ncereals\t\nmaize\tcereals\n{longest}\t\n"))
        .with("labels/en/crops.tsv", format!("code\tlabel\ncereals\tCereals\nmaize\tMaize\n{longest}\tX\n"));
    assert_eq!(problems(folder), Vec::<String>::new());
}

#[test]
fn invalid_successors_and_states() {
    let messages = problems(
        codes(
            "code\tparents\tstatus\treplaced_by\ncereals\t\tretired\t\nmaize\tcereals\tactive\tcereals\n\
             rye\t\tinactive\twheat\noat\t\tinactive\toat\n",
        )
        .with("labels/en/crops.tsv", "code\tlabel\ncereals\tC\nmaize\tM\nrye\tR\noat\tO\n"),
    );
    assert_eq!(
        messages,
        [
            "codes/crops.tsv:2: code `cereals`: `status` is `retired`; it can be active or inactive",
            "codes/crops.tsv:3: code `maize`: `replaced_by` is only for inactive codes",
            "codes/crops.tsv:4: code `rye`: `replaced_by` names `wheat`, which is not a code of this vocabulary",
            "codes/crops.tsv:5: code `oat`: `replaced_by` names `oat`, which is not a code of this vocabulary",
        ]
    );
}

#[test]
fn aliases_of_two_codes() {
    let messages = problems(codes("code\tparents\taliases\ncereals\t\tgrain|maize\nmaize\tcereals\tgrain\n"));
    assert_eq!(
        messages,
        [
            "codes/crops.tsv:2: code `cereals`: the alias `maize` is already used by the code `maize`",
            "codes/crops.tsv:3: code `maize`: the alias `grain` is already used by the code `cereals`",
        ]
    );
}

#[test]
fn a_count_or_a_hierarchy_other_than_declared() {
    assert_problem(
        PackFolder::valid().with_setting("hierarchical = true", "hierarchical = true\ncount = 3"),
        "pack.toml: `urn:example:crops` has 2 codes; pack.toml declares 3",
    );
    assert_problem(
        PackFolder::valid().with_setting("hierarchical = true", ""),
        "pack.toml: `urn:example:crops` has `hierarchical = false`, but some codes have parents",
    );
}

#[test]
fn settings_that_are_not_toml_unknown_or_wrong() {
    assert!(
        problems(PackFolder::valid().with_setting("domain = \"Farming\"", "domain = "))[0]
            .starts_with("pack.toml:10: ")
    );
    let unknown = problems(PackFolder::valid().with_setting("licence", "license"));
    assert!(unknown[0].contains("unknown field `license`"), "{unknown:?}");
    let name = problems(PackFolder::valid().with_setting("\"crops\"", "\"Crops!\""));
    assert!(name[0].contains("`Crops!` is not a plugin name"), "{name:?}");
    assert_problem(
        PackFolder::valid().with_setting("urn:example:crops", "urn:example#crops"),
        "pack.toml: `namespace` is `urn:example#crops`: a namespace is a URI of 1 to 200 visible ASCII characters without `#` and \
         `|`, such as `urn:iso:std:iso:5218`",
    );
    assert_problem(
        PackFolder::valid().with_setting("default_language = \"en\"", "default_language = \"es\""),
        "pack.toml: `default_language` is `es`, which is not among `languages`",
    );
    let open = problems(PackFolder::valid().with_setting("hierarchical = true", "hierarchical = true\nopen = true"));
    assert!(open[0].contains("`open` is `true`"), "{open:?}");
}

#[test]
fn a_table_outside_the_folder() {
    let messages = problems(PackFolder::valid().with_setting("\"crops.tsv\"", "\"../../etc/passwd.tsv\""));
    assert!(messages[0].contains("`codes` is `../../etc/passwd.tsv`"), "{messages:?}");
}

#[test]
fn missing_and_unreferenced_files() {
    let missing = problems(PackFolder::valid().without("labels/fr/crops.tsv"));
    assert!(matches!(missing.as_slice(), [message] if message.starts_with("labels/fr/crops.tsv: it cannot be read")));
    assert_problem(
        PackFolder::valid().with("labels/es/crops.tsv", "code\tlabel\nmaize\tMaíz\n"),
        "labels/es/crops.tsv: no setting in pack.toml refers to this file",
    );
    let nothing = tempfile::tempdir().unwrap();
    let errors = check(nothing.path()).unwrap_err();
    assert!(errors.to_string().starts_with("pack.toml: it cannot be read"), "{errors}");
}

#[test]
fn concept_groups_with_unknown_codes() {
    let group = |selection: &str| {
        PackFolder::valid().with_more_settings(&format!(
            "[[concept_group]]\nname = \"grain\"\ndescription = \"Grain.\"\ninclude = [{selection}]\n"
        ))
    };
    assert_eq!(problems(group("{ descendants_of = \"urn:example:crops#cereals\" }")), Vec::<String>::new());
    assert_eq!(problems(group("{ code = \"urn:other#x\" }")), Vec::<String>::new());
    assert_problem(
        group("{ code = \"urn:example:crops#rye\" }"),
        "pack.toml: `selection of the concept group grain` is `urn:example:crops#rye`, which is not a code of that vocabulary",
    );
    assert_problem(
        group("{ code = \"rye\" }"),
        "pack.toml: `selection of the concept group grain` is `rye`, which is not the URI of a code, <namespace>#<code>",
    );
    assert_problem(
        group(""),
        "pack.toml: `include of the concept group grain` is ``, which is not a list of at least one selection",
    );
}

#[test]
fn a_vocabulary_without_codes_must_be_declared_empty() {
    let folder = PackFolder::valid()
        .with_setting("codes = \"crops.tsv\"\nhierarchical = true", "completeness = \"empty\"")
        .without("codes/crops.tsv")
        .without("labels/en/crops.tsv")
        .without("labels/fr/crops.tsv");
    assert_eq!(problems(folder), Vec::<String>::new());
    let silent = PackFolder::valid()
        .with("codes/crops.tsv", "code\n")
        .with("labels/en/crops.tsv", "code\tlabel\n")
        .with("labels/fr/crops.tsv", "code\tlabel\n")
        .with_setting("hierarchical = true", "");
    let messages = problems(silent);
    assert!(matches!(messages.as_slice(), [message] if message.contains("has no codes")), "{messages:?}");
}

#[test]
fn all_problems_are_reported_together_and_too_many_are_counted() {
    let mut table = String::from("code\tparents\n");
    for _ in 0..2_000 {
        table.push_str("a b\t\n");
    }
    let errors = check(codes(&table).path()).unwrap_err();
    assert_eq!(errors.problems().len(), 1_000);
    assert!(errors.left_out() >= 1_000);
    assert!(errors.to_string().ends_with("more"));
}

/// The valid folder with a rule of the hierarchy and these codes.
fn by_rule(rule: &str, codes: &[&str]) -> PackFolder {
    let lines: String = codes.iter().map(|code| format!("{code}\tX\n")).collect();
    PackFolder::valid()
        .with_setting("hierarchical = true", &format!("hierarchical = true\nhierarchy = \"{rule}\""))
        .with("codes/crops.tsv", format!("code\n{}\n", codes.join("\n")))
        .with("labels/en/crops.tsv", format!("code\tlabel\n{lines}"))
        .with("labels/fr/crops.tsv", "code\tlabel\n")
}

#[test]
fn a_rule_replaces_the_column_of_parents() {
    for (rule, codes, parents) in [
        ("prefix", ["0", "01", "011"], ["", "0", "01"]),
        ("dotted", ["1", "1.2", "1.2.1"], ["", "1", "1.2"]),
        ("first-digit", ["2", "24", "244"], ["", "2", "2"]),
        ("icf", ["b1", "b114", "b1142"], ["", "b1", "b114"]),
    ] {
        let source = check(by_rule(rule, &codes).path()).unwrap_or_else(|errors| panic!("{errors}"));
        let concepts = &source.contents.vocabularies[0].1;
        let found: Vec<&str> =
            concepts.iter().map(|concept| concept.parents.first().map_or("", |parent| parent.as_str())).collect();
        assert_eq!(found, parents, "{rule}");
    }
}

#[test]
fn a_rule_requires_matching_codes_and_no_column() {
    assert_eq!(
        problems(by_rule("icf", &["b1", "b11", "b1142", "b2"])),
        [
            "codes/crops.tsv:3: code `b11`: the rule `icf` of the hierarchy is for codes made of one of the letters b, d, e and \
             s with one, three, four or five digits",
            "codes/crops.tsv:4: code `b1142`: by the rule `icf` it is below `b114`, which is not a code of this vocabulary",
            "pack.toml: `urn:example:crops` has `hierarchical = true`, but no code has a parent",
        ]
    );
    let both = by_rule("prefix", &["1", "11"]).with("codes/crops.tsv", "code\tparents\n1\t\n11\t1\n");
    assert_problem(
        both,
        "codes/crops.tsv:1: the column `parents` is not allowed: `hierarchy = \"prefix\"` in pack.toml determines \
         the parents",
    );
    let unknown = problems(by_rule("suffix", &["1", "11"]));
    assert!(unknown[0].contains("unknown variant `suffix`"), "{unknown:?}");
}
