//! What identifiers of a type look like, as the administrator said when adding the type.
//!
//! **Invariant:** a rule that cannot be read any more lets nothing pass.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::Generation;
use crate::code_problem::CodeProblem;
use daftar_domain::code::CodeUri;
use daftar_domain::identifier::Identifier;
use daftar_domain::local_code::{IdTarget, LocalCode, ValuePattern};
use daftar_domain::record::RecordKind;
use daftar_domain::vocabulary::ID_TYPE_NAMESPACE;

/// The most memory that a compiled pattern may take, in bytes; what the bounded text of a pattern may ask for by repetitions.
const PATTERN_MEMORY_BYTES_MAX: usize = 256 * 1024;
/// The deepest nesting of a pattern.
const PATTERN_NESTING_MAX: u32 = 24;

/// How many known systems are told to whom names another.
const TOLD_SYSTEMS_MAX: usize = 30;

/// What is wrong with an identifier. Says nothing of its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierProblem {
    /// The system is none that is known here.
    #[error("unknown identifier system; known systems: {}", quoted_list(.known))]
    UnknownSystem {
        /// What is known.
        known: Vec<String>,
    },
    /// The system is an ID type that new identifiers may not use.
    #[error("{0}")]
    Unusable(CodeProblem),
    /// Records of this kind do not carry such identifiers.
    #[error("`{system}` is an identifier of {}, not of {}", plural(*.target), plural_of(*.kind))]
    WrongTarget {
        /// The system.
        system: String,
        /// What carries it.
        target: IdTarget,
        /// What was given one.
        kind: RecordKind,
    },
    /// The value does not look like one of its system.
    #[error("the value is no identifier of `{system}`: {description} is expected")]
    Pattern {
        /// The system.
        system: String,
        /// What values look like.
        description: String,
    },
}

/// How identifiers of the types with rules are checked.
#[derive(Debug, Default)]
pub(super) struct IdentifierRules(HashMap<String, IdentifierRule>);

#[derive(Debug)]
struct IdentifierRule {
    target: IdTarget,
    pattern: Option<CompiledPattern>,
}

#[derive(Debug)]
struct CompiledPattern {
    /// Absent when the expression cannot be compiled any more.
    expression: Option<Regex>,
    description: String,
}

impl IdentifierProblem {
    /// The stable name of the problem.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownSystem { .. } => "unknown_system",
            Self::Unusable(problem) => problem.code(),
            Self::WrongTarget { .. } => "wrong_target_type",
            Self::Pattern { .. } => "pattern_mismatch",
        }
    }

    /// The member of an identifier that it is about.
    #[must_use]
    pub fn member(&self) -> &'static str {
        match self {
            Self::UnknownSystem { .. } | Self::Unusable(_) | Self::WrongTarget { .. } => "system",
            Self::Pattern { .. } => "value",
        }
    }
}

impl IdentifierRules {
    /// The rules of local ID types.
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

/// Compiles a pattern so that the whole value has to match.
///
/// # Errors
/// Why it is no regular expression, or that it takes too much room.
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
                // Its first lines draw the place with a caret; the last says what is wrong.
                other => other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
            })
    };
    // By itself first: a parenthesis too many must not be balanced by ours.
    build(&pattern.expression)?;
    build(&format!(r"\A(?:{})\z", pattern.expression))
}

impl Generation {
    /// Whether a record of that kind may be given that identifier.
    ///
    /// # Errors
    /// What is wrong with it, without its value.
    pub fn check_identifier(&self, kind: RecordKind, identifier: &Identifier) -> Result<(), IdentifierProblem> {
        if self.registered_systems.contains(&identifier.key.system) {
            return Ok(());
        }
        let system = identifier.key.system.as_str();
        let uri = CodeUri::parse(system).ok().filter(|uri| uri.to_string() == system);
        let Some(uri) = uri.filter(|uri| uri.namespace.as_str() == ID_TYPE_NAMESPACE) else {
            return Err(self.unknown_system());
        };
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
            | CodeProblem::WrongKind { .. } => self.unknown_system(),
        })?;
        let Some(rule) = self.identifier_rules.0.get(system) else { return Ok(()) };
        if !rule.target.includes(kind) {
            return Err(IdentifierProblem::WrongTarget { system: system.to_owned(), target: rule.target, kind });
        }
        match &rule.pattern {
            Some(pattern) if !pattern.matches(identifier.key.value.as_str()) => {
                Err(IdentifierProblem::Pattern { system: system.to_owned(), description: pattern.description.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn unknown_system(&self) -> IdentifierProblem {
        let id_types = self.identifier_systems().into_iter().map(|system| system.uri);
        let known = id_types.chain(self.registered_systems.iter().map(ToString::to_string)).collect();
        IdentifierProblem::UnknownSystem { known }
    }
}

impl CompiledPattern {
    fn matches(&self, value: &str) -> bool {
        self.expression.as_ref().is_some_and(|expression| expression.is_match(value))
    }
}

fn quoted_list(known: &[String]) -> String {
    if known.is_empty() {
        return "none".to_owned();
    }
    let told: Vec<String> = known.iter().take(TOLD_SYSTEMS_MAX).map(|system| format!("`{system}`")).collect();
    match known.len().saturating_sub(told.len()) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
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
    fn a_pattern_that_is_none_or_too_large_is_refused() {
        for expression in ["(", "a)(?:b", "[", "(?x)a#", "*", r"\1", "(?=a)", "a{1001}{1001}", r"\p{L}{500}"] {
            assert!(compiled(expression).is_err(), "{expression}");
        }
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(compiled(&nested(20)).is_ok());
        assert!(compiled(&nested(30)).is_err());
    }
}
