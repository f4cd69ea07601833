//! Cells that a spreadsheet would take for formulas.
//!
//! **Invariant:** what [`guarded`] makes of any text, [`unguarded`] makes into that text again.

/// What a spreadsheet takes a cell for a formula by (OWASP, CSV injection).
const BEGINNINGS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A text as a cell: with an apostrophe before what would be taken for a formula.
#[must_use]
pub fn guarded(text: &str) -> String {
    if is_guarded_or_formula(text) { format!("'{text}") } else { text.to_owned() }
}

/// The text of a cell.
#[must_use]
pub fn unguarded(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_guarded_or_formula(text) => text,
        Some(_) | None => cell,
    }
}

/// Whether a text begins like a formula, after any number of apostrophes.
fn is_guarded_or_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(BEGINNINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_guarded_and_every_text_comes_back() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("+977 1", "'+977 1"),
            ("-", "'-"),
            ("@x", "'@x"),
            ("'=x", "''=x"),
            ("''", "''"),
            ("'s-Gravenhage", "'s-Gravenhage"),
            ("a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(guarded(text), cell);
            assert_eq!(unguarded(cell), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_comes_back(text in "['=+@a-]{0,6}") {
            let cell = guarded(&text);
            proptest::prop_assert_eq!(unguarded(&cell), text.as_str());
        }
    }
}
