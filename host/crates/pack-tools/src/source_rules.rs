//! Limits and checks of a pack's source, shared by the source reader and the importers.

use std::collections::HashMap;

use serde::Deserialize;

/// The most codes of one vocabulary. ICD-11 has 34,663, all of AGROVOC about 42,000.
pub const CODES_MAX: usize = 200_000;

/// The most languages of one vocabulary.
pub const LANGUAGES_MAX: usize = 100;

/// The most parents, or aliases, of one code.
pub const LIST_ITEMS_MAX: usize = 64;

/// The largest label, URI, alias or property, in bytes.
pub const LABEL_BYTES_MAX: usize = 2_048;

/// The largest definition, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 16 * 1024;

/// The most codes in the cycles that one search returns: cycles may share codes, so a small table can have very many.
const CYCLE_CODES_MAX: usize = 1_000_000;

/// Returns true if a text is one trimmed line in Unicode normal form C within the limits.
pub fn is_text(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LABEL_BYTES_MAX
        && !text.chars().any(char::is_control)
        && text.trim() == text
        && unicode_normalization::is_nfc(text)
}

/// Returns true if a text is a BCP 47 language tag that packs accept.
pub fn is_language_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_primary = |part: &str| (2..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_further =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 35 && parts.next().is_some_and(is_primary) && parts.all(is_further)
}

/// Returns true if a text is a valid name of a property or a concept group.
pub fn is_key(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

daftar_domain::named_enum! {
    /// The source of a hierarchy: a column, or a rule of the classification's publisher.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum HierarchyRule {
        /// The column `parents`.
        #[default]
        Parents = "parents",
        /// The parent is the code without its last character (ISCO-08).
        Prefix = "prefix",
        /// The parent is the code without its last dotted part (housing: `1.2.1` below `1.2`).
        Dotted = "dotted",
        /// The parent is the first character (ISCED 2011: `24` below `2`).
        FirstDigit = "first-digit",
        /// The parent of an ICF code is the code without its last digit; that of a code with three digits is the
        /// chapter (`b114` below `b1`).
        Icf = "icf",
    }
}

impl HierarchyRule {
    /// Returns the parent of a code; none at the top level.
    ///
    /// # Errors
    /// The code does not have the expected form, which the error describes.
    pub fn parent(self, code: &str) -> Result<Option<&str>, &'static str> {
        let without_last = || code.char_indices().next_back().and_then(|(at, _)| code.get(..at));
        let parent = match self {
            Self::Parents => None,
            Self::Prefix => without_last(),
            Self::Dotted => code.rsplit_once('.').map(|(above, _)| above),
            Self::FirstDigit => {
                let second = code.char_indices().nth(1);
                second.and_then(|(at, _)| code.get(..at))
            }
            Self::Icf => {
                let digits = code.strip_prefix(['b', 'd', 'e', 's']).unwrap_or_default();
                if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 1 | 3..=5) {
                    return Err("one of the letters b, d, e and s with one, three, four or five digits");
                }
                match digits.len() {
                    1 => None,
                    3 => code.get(..2),
                    _ => without_last(),
                }
            }
        };
        Ok(parent.filter(|parent| !parent.is_empty()))
    }
}

/// A cycle of codes.
pub struct Cycle {
    /// The positions of the codes, each below the next and the last below the first.
    pub codes: Vec<usize>,
    /// The codes, with the first one repeated at the end; the middle of a long cycle is omitted.
    pub path: String,
}

/// The state of a code in the search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Not,
    /// On the current path.
    Open,
    Done,
}

/// Finds cycles among codes with their parents; unknown parents are ignored. If there are cycles, at least one is
/// returned.
///
/// Follows all parents of a code, depth first and without recursion: a chain may be as long as the table.
pub fn cycles<'c, P: Iterator<Item = &'c str>>(codes: impl Iterator<Item = (&'c str, P)>) -> Vec<Cycle> {
    let (names, parents): (Vec<&str>, Vec<P>) = codes.unzip();
    let index: HashMap<&str, usize> = names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
    let parents: Vec<Vec<usize>> =
        parents.into_iter().map(|parents| parents.filter_map(|parent| index.get(parent).copied()).collect()).collect();
    let mut visits = vec![Visit::Not; parents.len()];
    let mut cycles = Vec::new();
    let mut cycle_codes = 0;
    for start in 0..parents.len() {
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut following = Some(start);
        loop {
            match following.map(|node| (node, visits.get(node))) {
                Some((node, Some(Visit::Not))) => {
                    set(&mut visits, node, Visit::Open);
                    path.push((node, 0));
                }
                Some((node, Some(Visit::Open))) => {
                    let on_path = path.iter().map(|(node, _)| *node);
                    let codes: Vec<usize> = on_path.skip_while(|other| *other != node).collect();
                    cycle_codes += codes.len();
                    cycles.push(Cycle { path: path_text(&codes, &names), codes });
                    if cycle_codes > CYCLE_CODES_MAX {
                        return cycles;
                    }
                }
                Some((_, Some(Visit::Done) | None)) => {}
                None => {
                    if let Some((node, _)) = path.pop() {
                        set(&mut visits, node, Visit::Done);
                    }
                }
            }
            let Some((node, next)) = path.last_mut() else { break };
            following = parents.get(*node).and_then(|parents| parents.get(*next)).copied();
            *next += 1;
        }
    }
    cycles
}

fn set(visits: &mut [Visit], index: usize, visit: Visit) {
    if let Some(slot) = visits.get_mut(index) {
        *slot = visit;
    }
}

fn path_text(codes: &[usize], names: &[&str]) -> String {
    const SHOWN_MAX: usize = 8;
    let mut shown: Vec<&str> = codes.iter().take(SHOWN_MAX).filter_map(|index| names.get(*index)).copied().collect();
    let first = shown.first().copied();
    if codes.len() > SHOWN_MAX {
        shown.push("…");
    }
    shown.extend(first);
    shown.join(" → ")
}

#[cfg(test)]
mod tests {
    use super::{HierarchyRule, cycles, is_language_tag};

    fn way_up(rule: HierarchyRule, code: &str) -> Vec<String> {
        let mut way = vec![code.to_owned()];
        while let Some(parent) = way.last().and_then(|code| rule.parent(code).unwrap()).map(str::to_owned) {
            way.push(parent);
        }
        way
    }

    #[test]
    fn every_rule_yields_the_parents_of_its_publisher() {
        assert_eq!(way_up(HierarchyRule::Prefix, "0110"), ["0110", "011", "01", "0"]);
        assert_eq!(way_up(HierarchyRule::Dotted, "1.2.1"), ["1.2.1", "1.2", "1"]);
        assert_eq!(way_up(HierarchyRule::FirstDigit, "244"), ["244", "2"]);
        assert_eq!(way_up(HierarchyRule::Icf, "b11420"), ["b11420", "b1142", "b114", "b1"]);
        assert_eq!(way_up(HierarchyRule::Parents, "x"), ["x"]);
        assert_eq!(way_up(HierarchyRule::Prefix, "éà"), ["éà", "é"]);
    }

    #[test]
    fn the_rule_of_icf_is_for_codes_of_icf() {
        for code in ["b", "b11", "b114200", "x1", "b1x4"] {
            assert!(HierarchyRule::Icf.parent(code).is_err(), "{code}");
        }
    }

    #[test]
    fn knows_language_tags() {
        for tag in ["en", "fil", "pt-BR", "zh-Hant-TW"] {
            assert!(is_language_tag(tag), "{tag}");
        }
        for tag in ["", "e", "EN", "en_GB", "en-", "english", "..", "en/.."] {
            assert!(!is_language_tag(tag), "{tag}");
        }
    }

    #[test]
    fn cycles_are_found_with_their_paths_and_long_ones_are_shortened() {
        let found = |parents: &[(&'static str, &'static [&'static str])]| {
            let codes = parents.iter().map(|(code, parents)| (*code, parents.iter().copied()));
            cycles(codes).into_iter().map(|cycle| (cycle.codes, cycle.path)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[("a", &[]), ("b", &["a"]), ("c", &["b", "a", "absent"])]), []);
        let shared: &[(&str, &[&str])] = &[("x", &["a"]), ("a", &["b", "c"]), ("b", &["a"]), ("c", &["a"])];
        assert_eq!(found(shared), [(vec![1, 2], "a → b → a".to_owned()), (vec![1, 3], "a → c → a".to_owned())]);
        assert_eq!(found(&[("a", &["a"])]), [(vec![0], "a → a".to_owned())]);
        let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let ring = names.iter().enumerate().map(|(at, name)| (name.as_str(), names.get((at + 1) % 20)));
        let ring = cycles(ring.map(|(name, parent)| (name, parent.map(String::as_str).into_iter())));
        assert_eq!(ring.first().unwrap().path, "0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → … → 0");
    }

    #[test]
    fn a_small_table_with_very_many_cycles_takes_bounded_memory() {
        let names: Vec<String> = (0..5_000).map(|number| format!("c{number}")).collect();
        let codes = names.iter().enumerate().map(|(at, name)| {
            let parents = [names.get(at + 1), names.first()].into_iter().flatten();
            (name.as_str(), parents.map(String::as_str))
        });
        let found = cycles(codes);
        let held: usize = found.iter().map(|cycle| cycle.codes.len()).sum();
        assert!(!found.is_empty() && held < 1_010_000, "{held}");
    }
}
