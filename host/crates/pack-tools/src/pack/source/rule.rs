//! Hierarchies that follow from the codes themselves, by the rule of the classification's owner.

use serde::Deserialize;

use super::codes::Codes;
use crate::pack::problem::{PackErrors, PackProblemKind};
use daftar_domain::code::Code;

/// What says which code is below which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HierarchyRule {
    /// The column `parents`.
    #[default]
    Parents,
    /// A code is below the one without its last character (ISCO-08).
    Prefix,
    /// A code is below the one without its last part behind a dot (housing: `1.2.1` below `1.2`).
    Dotted,
    /// A longer code is below its first character (ISCED 2011: `24` below `2`).
    FirstDigit,
    /// A code of ICF is below the one without its last digit, but three digits hang from the chapter (`b114` below `b1`).
    Icf,
}

impl HierarchyRule {
    /// Its name in `pack.toml`.
    const fn name(self) -> &'static str {
        match self {
            Self::Parents => "parents",
            Self::Prefix => "prefix",
            Self::Dotted => "dotted",
            Self::FirstDigit => "first-digit",
            Self::Icf => "icf",
        }
    }

    /// The code one level up; none at the top.
    ///
    /// # Errors
    /// The code does not have the shape that the rule is for; says which one it is.
    fn parent(self, code: &str) -> Result<Option<&str>, &'static str> {
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

/// Puts every code below the one that the rule says; what is wrong is reported.
pub fn apply(codes: &mut Codes, rule: HierarchyRule, errors: &mut PackErrors) {
    if rule == HierarchyRule::Parents {
        return;
    }
    if codes.has_parents {
        errors.push(&codes.file, Some(1), None, PackProblemKind::ParentsByRule(rule.name()));
        return;
    }
    let mut parents = Vec::with_capacity(codes.concepts.len());
    for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
        let code = concept.code.as_str();
        let mut push = |kind| errors.push(&codes.file, Some(*line), Some(code), kind);
        let parent = rule.parent(code).unwrap_or_else(|wanted| {
            push(PackProblemKind::NotForRule { rule: rule.name(), wanted });
            None
        });
        let found = parent.and_then(|parent| codes.names.get(parent)).and_then(|index| codes.concepts.get(*index));
        if let (Some(parent), None) = (parent, found) {
            push(PackProblemKind::NoParentByRule { rule: rule.name(), named: parent.to_owned() });
        }
        parents.push(found.map(|found| found.code.clone()));
    }
    for (concept, parent) in codes.concepts.iter_mut().zip(parents) {
        concept.parents = parent.into_iter().collect::<Vec<Code>>();
    }
}

#[cfg(test)]
mod tests {
    use super::HierarchyRule;

    fn way_up(rule: HierarchyRule, code: &str) -> Vec<String> {
        let mut way = vec![code.to_owned()];
        while let Some(parent) = way.last().and_then(|code| rule.parent(code).unwrap()).map(str::to_owned) {
            way.push(parent);
        }
        way
    }

    #[test]
    fn every_rule_goes_up_as_its_owner_says() {
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
}
