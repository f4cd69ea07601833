//! Patterns of identifiers of a type, defined by the administrator.
//!
//! **Invariant:** a rule that cannot be parsed accepts no value.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::Generation;
use crate::code_problem::CodeProblem;
use daftar_domain::code::CodeUri;
use daftar_domain::identifier::{Identifier, SystemUri};
use daftar_domain::local_code::{IdTarget, LocalCode, ValuePattern};
use daftar_domain::record::RecordKind;
use daftar_domain::vocabulary::ID_TYPE_NAMESPACE;

/// Maximum memory of a compiled pattern, in bytes. Repetitions in a pattern of bounded length can require more.
const PATTERN_MEMORY_BYTES_MAX: usize = 256 * 1024;
/// Maximum nesting depth of a pattern.
const PATTERN_NESTING_MAX: u32 = 24;

/// Maximum number of known systems in an error.
const LISTED_SYSTEMS_MAX: usize = 30;
/// Maximum edit distance between a system and its suggested replacement.
const SYSTEM_EDITS_MAX: usize = 3;
/// Systems that differ in a longer part are not compared. This bounds the cost of an error.
const DIFFERENT_BYTES_MAX: usize = 24;

/// Problem with an identifier. It contains no part of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierProblem {
    /// The system is unknown.
    #[error(
        "unknown identifier system `{system}`{}; known systems: {}; the administrator registers others with `daftar identifier-system add`",
        did_you_mean(.nearest.as_deref()), listed(.known, *.more)
    )]
    UnknownSystem {
        /// The system.
        system: String,
        /// The closest known system.
        nearest: Option<String>,
        /// The first known systems.
        known: Vec<String>,
        /// Number of further known systems.
        more: usize,
    },
    /// The system is an ID type that new identifiers may not use.
    #[error("{0}")]
    Unusable(CodeProblem),
    /// Records of this kind do not have such identifiers.
    #[error("`{system}` is an identifier of {}, not of {}", plural(*.target), plural_of(*.kind))]
    WrongTarget {
        /// The system.
        system: String,
        /// Kind of records that may have such an identifier.
        target: IdTarget,
        /// Kind of the record.
        kind: RecordKind,
    },
    /// The value does not match the pattern of its system.
    #[error("the value is no identifier of `{system}`: {description} is expected")]
    Pattern {
        /// The system.
        system: String,
        /// Pattern of values.
        description: String,
    },
}

/// Patterns of identifiers, by type.
#[derive(Debug, Default)]
pub(super) struct IdentifierRules(HashMap<String, IdentifierRule>);

#[derive(Debug)]
struct IdentifierRule {
    target: IdTarget,
    pattern: Option<CompiledPattern>,
}

#[derive(Debug)]
struct CompiledPattern {
    /// `None` if the expression does not compile.
    expression: Option<Regex>,
    description: String,
}

impl IdentifierProblem {
    /// Returns the stable name of the problem.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownSystem { .. } => "unknown_system",
            Self::Unusable(problem) => problem.code(),
            Self::WrongTarget { .. } => "wrong_target_type",
            Self::Pattern { .. } => "pattern_mismatch",
        }
    }

    /// Returns the member of the identifier that caused the problem.
    #[must_use]
    pub fn member(&self) -> &'static str {
        match self {
            Self::UnknownSystem { .. } | Self::Unusable(_) | Self::WrongTarget { .. } => "system",
            Self::Pattern { .. } => "value",
        }
    }
}

impl IdentifierRules {
    /// Returns the rules of local ID types.
    pub(super) fn of<'a>(codes: impl Iterator<Item = &'a LocalCode>) -> Self {
        let mut rules = HashMap::new();
        for code in codes {
            let Some(rule) = &code.id_type else { continue };
            let pattern = rule.pattern.as_ref().map(|pattern| CompiledPattern {
                expression: compile(pattern)
                    .inspect_err(|error| {
                        tracing::error!(code = %code.uri, error, "the pattern of an ID type cannot be used: no value passes");
                    })
                    .ok(),
                description: pattern.description.clone(),
            });
            rules.insert(code.uri.to_string(), IdentifierRule { target: rule.target, pattern });
        }
        Self(rules)
    }
}

/// Compiles a pattern that has to match the complete value.
///
/// # Errors
/// Returns an error if the regular expression is invalid or too large.
pub fn check_pattern(pattern: &ValuePattern) -> Result<(), String> {
    compile(pattern).map(drop)
}

fn compile(pattern: &ValuePattern) -> Result<Regex, String> {
    let build = |text: &str| {
        RegexBuilder::new(text)
            .size_limit(PATTERN_MEMORY_BYTES_MAX)
            .dfa_size_limit(PATTERN_MEMORY_BYTES_MAX)
            .nest_limit(PATTERN_NESTING_MAX)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    format!("it takes more than {PATTERN_MEMORY_BYTES_MAX} bytes compiled: use smaller repetitions")
                }
                // The first lines mark the position with a caret. The last line is the error message.
                other => other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
            })
    };
    // Compile the expression alone first: the added parentheses must not balance an extra one.
    build(&pattern.expression)?;
    build(&format!(r"\A(?:{})\z", pattern.expression))
}

impl Generation {
    /// Checks that a record of the kind may have the identifier.
    ///
    /// # Errors
    /// Returns the problem with the identifier, without its value.
    pub fn check_identifier(&self, kind: RecordKind, identifier: &Identifier) -> Result<(), IdentifierProblem> {
        let system = &identifier.key.system;
        if self.registered_systems.contains(system) {
            return Ok(());
        }
        let Some(uri) = id_type(system) else { return Err(self.unknown_system(system)) };
        self.check_identifier_system(&uri).map_err(|problem| match problem {
            CodeProblem::Inactive { .. } | CodeProblem::NotSelectable { .. } => IdentifierProblem::Unusable(problem),
            CodeProblem::UnknownVocabulary { .. }
            | CodeProblem::WrongVocabulary { .. }
            | CodeProblem::NotInstalled { .. }
            | CodeProblem::EmptyVocabulary { .. }
            | CodeProblem::UnknownCode { .. }
            | CodeProblem::OtherVocabulary { .. }
            | CodeProblem::NotInFragment { .. }
            | CodeProblem::WrongCase { .. }
            | CodeProblem::Alias { .. }
            | CodeProblem::Malformed { .. }
            | CodeProblem::WrongKind { .. } => self.unknown_system(system),
        })?;
        let Some(rule) = self.identifier_rules.0.get(system.as_str()) else { return Ok(()) };
        if !rule.target.includes(kind) {
            return Err(IdentifierProblem::WrongTarget { system: system.to_string(), target: rule.target, kind });
        }
        match &rule.pattern {
            Some(pattern) if !pattern.matches(identifier.key.value.as_str()) => {
                Err(IdentifierProblem::Pattern { system: system.to_string(), description: pattern.description.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns true if a system is registered or is a code of the ID types, active or inactive. Records may contain
    /// identifiers of formerly registered systems.
    #[must_use]
    pub fn knows_system(&self, system: &SystemUri) -> bool {
        let is_id_type = || id_type(system).is_some_and(|uri| self.check_known(&uri).is_ok());
        self.registered_systems.contains(system) || is_id_type()
    }

    /// Checks that a system is known, as [`Self::knows_system`].
    ///
    /// # Errors
    /// [`IdentifierProblem::UnknownSystem`].
    pub fn check_system(&self, system: &SystemUri) -> Result<(), IdentifierProblem> {
        if self.knows_system(system) { Ok(()) } else { Err(self.unknown_system(system)) }
    }

    fn unknown_system(&self, system: &SystemUri) -> IdentifierProblem {
        let id_types = self.identifier_systems().into_iter().map(|system| system.uri);
        let mut known: Vec<String> = id_types.chain(self.registered_systems.iter().map(ToString::to_string)).collect();
        let distances = known.iter().filter_map(|known| Some((edits(system.as_str(), known)?, known)));
        let nearest = distances.min().map(|(_, known)| known.clone());
        let more = known.len().saturating_sub(LISTED_SYSTEMS_MAX);
        known.truncate(LISTED_SYSTEMS_MAX);
        IdentifierProblem::UnknownSystem { system: system.to_string(), nearest, known, more }
    }
}

/// Returns the ID type code that a system identifies, in the spelling of code URIs.
fn id_type(system: &SystemUri) -> Option<CodeUri> {
    let uri = CodeUri::parse(system.as_str()).ok().filter(|uri| uri.to_string() == system.as_str())?;
    (uri.namespace.as_str() == ID_TYPE_NAMESPACE).then_some(uri)
}

/// Returns the edit distance of two systems if it is small. Systems are ASCII.
fn edits(one: &str, other: &str) -> Option<usize> {
    let alike = |one: &(u8, u8)| one.0 == one.1;
    let front = one.bytes().zip(other.bytes()).take_while(alike).count();
    let (one, other) = (one.get(front..)?, other.get(front..)?);
    let back = one.bytes().rev().zip(other.bytes().rev()).take_while(alike).count();
    let (one, other) = (one.get(..one.len() - back)?, other.get(..other.len() - back)?);
    if one.len().max(other.len()) > DIFFERENT_BYTES_MAX {
        return None;
    }
    Some(strsim::osa_distance(one, other)).filter(|edits| *edits <= SYSTEM_EDITS_MAX)
}

impl CompiledPattern {
    fn matches(&self, value: &str) -> bool {
        self.expression.as_ref().is_some_and(|expression| expression.is_match(value))
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!(" (did you mean `{nearest}`?)")).unwrap_or_default()
}

fn listed(known: &[String], more: usize) -> String {
    let quoted: Vec<String> = known.iter().map(|system| format!("`{system}`")).collect();
    match (quoted.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => quoted.join(", "),
        (false, more) => format!("{} and {more} more", quoted.join(", ")),
    }
}

fn plural(target: IdTarget) -> &'static str {
    match target {
        IdTarget::Individual => "individuals",
        IdTarget::Group => "groups",
        IdTarget::Both => "individuals and groups",
    }
}

fn plural_of(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Individual => "individuals",
        RecordKind::Group => "groups",
        RecordKind::Program => "programs",
        RecordKind::ProgramMembership => "memberships in programs",
        RecordKind::Consent => "consents",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(expression: &str) -> Result<Regex, String> {
        compile(&ValuePattern::new(expression.to_owned(), "a value".to_owned()).unwrap())
    }

    #[test]
    fn the_whole_value_has_to_match() {
        let pattern = compiled("[0-9]{3}|AB").unwrap();
        for value in ["123", "AB"] {
            assert!(pattern.is_match(value), "{value}");
        }
        for value in ["1234", "x123", "AB1", "123\n", "", "AB\nAB"] {
            assert!(!pattern.is_match(value), "{value:?}");
        }
        assert!(!compiled("(?m)^1$").unwrap().is_match("1\n1"), "lines do not count");
    }

    #[test]
    fn systems_are_compared_where_they_differ() {
        let long = "y".repeat(200);
        for (one, other, count) in [
            ("urn:x#national_id", "urn:x#nationl_id", Some(1)),
            ("urn:x#passport", "urn:x#pasport", Some(1)),
            ("urn:x", "urn:x", Some(0)),
            ("urn:xy", "urn:yx", Some(1)),
            ("urn:x:y", "https://example.org/id", None),
            (&format!("urn:{long}"), &format!("urm:{long}"), Some(1)),
            (&format!("urn:{long}"), "urn:z", None),
        ] {
            assert_eq!(edits(one, other), count, "{one} {other}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_or_too_large_is_refused() {
        for expression in ["(", "a)(?:b", "[", "(?x)a#", "*", r"\1", "(?=a)", "a{1001}{1001}", r"\p{L}{500}"] {
            assert!(compiled(expression).is_err(), "{expression}");
        }
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(compiled(&nested(20)).is_ok());
        assert!(compiled(&nested(30)).is_err());
    }
}
