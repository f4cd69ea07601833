//! ICF: body functions and activities, each code below the one that its digits say.

use super::{Line, Release, WhoRow};
use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftPack, DraftVocabulary};
use crate::owner_files::owner;
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;

/// The components that the register has fields for, with their namespaces.
const COMPONENTS: [(char, &str, &str, &str); 2] = [
    ('b', "urn:who:icf:b", "ICF body functions", "icf-b"),
    ('d', "urn:who:icf:d", "ICF activities and participation", "icf-d"),
];

/// The rule's name in `pack.toml`.
const RULE: &str = "icf";

/// The draft of a table of ICF.
pub fn draft(lines: Vec<Line>, release: Release, tally: &mut Tally) -> Result<DraftPack, ImportError> {
    let mut components = COMPONENTS.map(|component| (component, Vec::new()));
    // Codes hang by their digits, so a row that is not taken takes none with it that the check would not find.
    for row in lines.iter().filter_map(Line::taken) {
        if row.code.is_empty() {
            tally.leave_out("a heading without a code");
        } else if is_range(&row.code) {
            tally.leave_out("a range of codes, which is no code");
        } else if is_component(&row.code) {
            tally.leave_out("the letter of a component, which is no code");
        } else if !is_code(&row.code) {
            let reason = format!("`{}` does not have the shape of a code of ICF", excerpt(&row.code));
            tally.refuse(Some(row.line), Some(&row.code), reason);
        } else if let Some((_, codes)) = components.iter_mut().find(|((letter, ..), _)| row.code.starts_with(*letter)) {
            codes.push(code(row, &release.language));
        } else {
            tally.leave_out("a code of another component: body structures (s) or environmental factors (e)");
        }
    }
    let vocabularies = components.into_iter().filter(|(_, codes)| !codes.is_empty());
    let vocabularies = vocabularies.map(|((_, namespace, name, table), codes)| DraftVocabulary {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        domain: "Disability".to_owned(),
        edition: release.edition.clone(),
        source: format!("WHO, International Classification of Functioning, Disability and Health, {}", release.edition),
        table: table.to_owned(),
        languages: vec![release.language.clone()],
        completeness: DraftCompleteness::Full,
        hierarchy: DraftHierarchy::Rule(RULE),
        codes,
    });
    let vocabularies: Vec<DraftVocabulary> = vocabularies.collect();
    if vocabularies.is_empty() {
        return Err(tally.unusable("the table has no code of body functions (b) or activities (d)"));
    }
    Ok(DraftPack::of(owner::icf(&release.edition), vocabularies))
}

fn code(row: &WhoRow, language: &str) -> DraftCode {
    let mut code = DraftCode::new(row.code.clone(), Some(row.line)).labelled(language, row.title.clone());
    code.parents = parent(&row.code).map(str::to_owned).into_iter().collect();
    code.uri = row.uri();
    if row.is_residual { code.with_property("residual", "yes") } else { code }
}

/// A letter and one digit for a chapter; three, four or five below it.
pub fn is_code(text: &str) -> bool {
    let digits = text.strip_prefix(['b', 'd', 's', 'e']).unwrap_or_default();
    matches!(digits.len(), 1 | 3..=5) && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0')
}

/// The letter of a component, which some tables have in place of a code.
pub fn is_component(text: &str) -> bool {
    matches!(text, "b" | "d" | "e" | "s")
}

/// Two codes with a hyphen, such as `b110-b139`.
pub fn is_range(text: &str) -> bool {
    text.split_once('-').is_some_and(|(first, last)| is_code(first) && is_code(last))
}

/// One digit fewer; three digits hang from the chapter, for there is nothing of two.
fn parent(code: &str) -> Option<&str> {
    match code.len() {
        0..=2 => None,
        3 | 4 => code.get(..2),
        length => code.get(..length - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_code, is_range, parent};

    #[test]
    fn three_digits_hang_from_the_chapter() {
        assert_eq!(["b11420", "b1142", "b114", "b1"].map(parent), [Some("b1142"), Some("b114"), Some("b1"), None]);
    }

    #[test]
    fn ranges_and_components_are_no_codes() {
        assert!(is_range("b110-b139") && !is_range("b110") && !is_range("b110-"));
        for text in ["b", "b11", "b0", "b114200", "B114", "b11x", "x110"] {
            assert!(!is_code(text), "{text}");
        }
        assert!(["b1", "b114", "b1142", "b11420", "s110", "e1"].iter().all(|code| is_code(code)));
    }
}
