//! Codes that the administrator adds to an extensible vocabulary.
//!
//! **Invariant:** a local code is never deleted and never reused: records contain it.

use jiff::Timestamp;

use super::code::{Code, CodeUri};
use super::hidden::hidden_character;
use super::identifier::has_scheme;
use super::record::RecordKind;
use super::vocabulary::{ID_TYPE_NAMESPACE, LocalizedText};

/// The vocabulary of pregnancy statuses: the registry's own, initially empty.
pub const PREGNANCY_STATUS_NAMESPACE: &str = "urn:svc:vocab:pregnancy-status";
/// The extensible vocabularies.
pub const EXTENSIBLE_NAMESPACES: [&str; 3] =
    [ID_TYPE_NAMESPACE, "urn:svc:vocab:ethnocultural", PREGNANCY_STATUS_NAMESPACE];
/// The property of a pack's code that belongs to a starter set: the administrator may deprecate it like a local code.
pub const STARTER_PROPERTY: &str = "starter";
/// Maximum number of local codes of a registry.
pub const LOCAL_CODES_MAX: usize = 1_000;
/// Maximum length of a local code, in bytes.
pub const LOCAL_CODE_BYTES_MAX: usize = 64;
/// Maximum number of labels of a local code.
pub const LABELS_MAX: usize = 50;
/// Maximum length of a label of a local code, in bytes.
pub const LABEL_BYTES_MAX: usize = 200;
/// Maximum length of a reference of a local code, in bytes.
pub const REFERENCE_BYTES_MAX: usize = 500;
/// Maximum length of a pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Maximum length of the description of a pattern, in bytes.
pub const PATTERN_DESCRIPTION_BYTES_MAX: usize = 200;

/// Error: a part of a local code is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalCodeError {
    /// Invalid code.
    #[error(
        "a local code has 1 to {LOCAL_CODE_BYTES_MAX} lower-case letters, digits and underscores, and begins with a letter, such as `farmer_id`"
    )]
    Code,
    /// There is no label.
    #[error("a local code requires a label, such as `en=Farmer ID`")]
    NoLabel,
    /// There are too many labels.
    #[error("a local code has at most {LABELS_MAX} labels")]
    TooManyLabels,
    /// Two labels have the same language.
    #[error("there are two labels in the language `{0}`")]
    LabelTwice(String),
    /// Invalid language tag.
    #[error("`{}` is not a BCP 47 language tag such as `en` or `pt-BR`", .0.escape_debug())]
    Language(String),
    /// Invalid label.
    #[error("a label has 1 to {LABEL_BYTES_MAX} bytes in one line, without leading or trailing white space")]
    Label,
    /// A label contains an invisible character.
    #[error(
        "a label has no control characters and no invisible ones, such as U+200B or U+202E; remove {}", escaped(*.0)
    )]
    HiddenCharacter(char),
    /// Invalid URI.
    #[error("a reference is an absolute URI of at most {REFERENCE_BYTES_MAX} visible ASCII characters")]
    Reference,
    /// Invalid pattern.
    #[error("a pattern is a regular expression of 1 to {PATTERN_BYTES_MAX} bytes without control characters")]
    Pattern,
    /// Invalid description of a pattern.
    #[error(
        "the description of a pattern has 1 to {PATTERN_DESCRIPTION_BYTES_MAX} bytes; it is shown for invalid values, such as `ten digits`"
    )]
    PatternDescription,
}

/// A code of the deployment, or its decision on a code of a starter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCode {
    /// The code.
    pub uri: CodeUri,
    /// The origin of the code.
    pub origin: LocalOrigin,
    /// The more general code of the same vocabulary; this code counts wherever that one does.
    pub specialises: Option<Code>,
    /// Labels, at most one per language; at least one for a code of the deployment.
    pub labels: Vec<LocalizedText>,
    /// URI of a definition or further information.
    pub reference: Option<String>,
    /// Rule for identifiers of this type; only for ID types.
    pub id_type: Option<IdTypeRule>,
    /// The status in new records.
    pub standing: LocalStanding,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// The origin of a local code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalOrigin {
    /// Added by the administrator.
    Deployment,
    /// Provided by a pack as part of a starter set; the deployment decides only on its status.
    StarterSet,
}

/// The status of a local code in new records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalStanding {
    /// Valid in new records.
    Active,
    /// Valid only in existing records.
    Deprecated {
        /// The successor.
        replaced_by: Option<Code>,
    },
}

/// Rule for identifiers of a type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdTypeRule {
    /// Pattern of the values; any value is valid if absent.
    pub pattern: Option<ValuePattern>,
    /// The kinds of record with such identifiers.
    pub target: IdTarget,
}

/// Pattern of the values of an identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePattern {
    /// A regular expression that must match the entire value.
    pub expression: String,
    /// Description of the pattern, returned for values that do not match.
    pub description: String,
}

named_enum! {
    /// The kinds of record with identifiers of a type.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum IdTarget {
        /// Individuals.
        Individual = "individual",
        /// Groups.
        Group = "group",
        /// Both.
        #[default]
        Both = "both",
    }
}

impl IdTarget {
    /// True if a record of this kind may have such an identifier.
    #[must_use]
    pub fn includes(self, kind: RecordKind) -> bool {
        match self {
            Self::Both => true,
            Self::Individual => kind == RecordKind::Individual,
            Self::Group => kind == RecordKind::Group,
        }
    }
}

impl LocalCode {
    /// True if the code is valid in new records.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.standing == LocalStanding::Active
    }

    /// Returns the successor of a deprecated code.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&Code> {
        match &self.standing {
            LocalStanding::Active => None,
            LocalStanding::Deprecated { replaced_by } => replaced_by.as_ref(),
        }
    }
}

/// Parses a local code.
///
/// # Errors
/// [`LocalCodeError::Code`].
pub fn parse_code(text: &str) -> Result<Code, LocalCodeError> {
    let is_valid = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.len() <= LOCAL_CODE_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_valid { Code::parse(text).map_err(|_| LocalCodeError::Code) } else { Err(LocalCodeError::Code) }
}

/// Checks labels.
///
/// # Errors
/// The problem of the first invalid label.
pub fn check_labels(labels: &[LocalizedText]) -> Result<(), LocalCodeError> {
    if labels.is_empty() {
        return Err(LocalCodeError::NoLabel);
    }
    if labels.len() > LABELS_MAX {
        return Err(LocalCodeError::TooManyLabels);
    }
    for (place, label) in labels.iter().enumerate() {
        if !is_language_tag(&label.language) {
            return Err(LocalCodeError::Language(label.language.chars().take(40).collect()));
        }
        if !is_line(&label.value, LABEL_BYTES_MAX) {
            return Err(LocalCodeError::Label);
        }
        if let Some(hidden) = hidden_character(&label.value) {
            return Err(LocalCodeError::HiddenCharacter(hidden));
        }
        if labels.iter().take(place).any(|other| other.language == label.language) {
            return Err(LocalCodeError::LabelTwice(label.language.clone()));
        }
    }
    Ok(())
}

/// Checks a reference.
///
/// # Errors
/// [`LocalCodeError::Reference`].
pub fn check_reference(text: &str) -> Result<(), LocalCodeError> {
    let is_valid =
        has_scheme(text) && text.len() <= REFERENCE_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid { Ok(()) } else { Err(LocalCodeError::Reference) }
}

impl ValuePattern {
    /// Checks the lengths of an expression and its description; the expression is compiled elsewhere.
    ///
    /// # Errors
    /// [`LocalCodeError::Pattern`] and [`LocalCodeError::PatternDescription`].
    pub fn new(expression: String, description: String) -> Result<Self, LocalCodeError> {
        let is_bounded = !expression.is_empty() && expression.len() <= PATTERN_BYTES_MAX;
        if !is_bounded || expression.chars().any(char::is_control) {
            return Err(LocalCodeError::Pattern);
        }
        if !is_line(&description, PATTERN_DESCRIPTION_BYTES_MAX) {
            return Err(LocalCodeError::PatternDescription);
        }
        Ok(Self { expression, description })
    }
}

fn escaped(character: char) -> String {
    format!("U+{:04X}", u32::from(character))
}

fn is_line(text: &str, bytes_max: usize) -> bool {
    !text.is_empty()
        && text.len() <= bytes_max
        && text.trim().len() == text.len()
        && !text.chars().any(char::is_control)
}

fn is_language_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_primary = |part: &str| (2..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_further =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 35 && parts.next().is_some_and(is_primary) && parts.all(is_further)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(language: &str, value: &str) -> LocalizedText {
        LocalizedText { language: language.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_local_code_has_the_shape_of_its_vocabularies() {
        for text in ["farmer_id", "a", "x9_", &"a".repeat(LOCAL_CODE_BYTES_MAX)] {
            assert!(parse_code(text).is_ok(), "{text}");
        }
        for text in ["", "9a", "_a", "Farmer", "a-b", "a b", "é", "..", "a#b", &"a".repeat(LOCAL_CODE_BYTES_MAX + 1)] {
            assert_eq!(parse_code(text), Err(LocalCodeError::Code), "{text}");
        }
    }

    #[test]
    fn labels_are_lines_with_distinct_languages() {
        assert_eq!(check_labels(&[label("en", "Farmer ID"), label("pt-BR", "x")]), Ok(()));
        assert_eq!(check_labels(&[]), Err(LocalCodeError::NoLabel));
        assert_eq!(check_labels(&[label("en", "a"), label("en", "b")]), Err(LocalCodeError::LabelTwice("en".into())));
        assert_eq!(check_labels(&[label("EN", "a")]), Err(LocalCodeError::Language("EN".into())));
        for text in ["", " a", "a\nb", &"a".repeat(LABEL_BYTES_MAX + 1)] {
            assert_eq!(check_labels(&[label("en", text)]), Err(LocalCodeError::Label), "{text:?}");
        }
        assert_eq!(check_labels(&[label("en", &"a".repeat(LABEL_BYTES_MAX))]), Ok(()));
        let hidden = check_labels(&[label("en", "Farmer\u{202e} ID")]).unwrap_err();
        assert_eq!(
            hidden.to_string(),
            "a label has no control characters and no invisible ones, such as U+200B or U+202E; remove U+202E"
        );
        let many = |count: usize| (0..count).map(|at| label(&format!("en-{at}"), "a")).collect::<Vec<_>>();
        assert_eq!(check_labels(&many(LABELS_MAX)), Ok(()));
        assert_eq!(check_labels(&many(LABELS_MAX + 1)), Err(LocalCodeError::TooManyLabels));
    }

    #[test]
    fn a_pattern_is_bounded_and_described() {
        let pattern = |expression: &str, description: &str| ValuePattern::new(expression.into(), description.into());
        assert!(pattern(&"a".repeat(PATTERN_BYTES_MAX), "letters").is_ok());
        assert_eq!(pattern(&"a".repeat(PATTERN_BYTES_MAX + 1), "letters"), Err(LocalCodeError::Pattern));
        assert_eq!(pattern("", "letters"), Err(LocalCodeError::Pattern));
        assert_eq!(pattern("a", ""), Err(LocalCodeError::PatternDescription));
        assert_eq!(check_reference("https://example.org/a"), Ok(()));
        assert_eq!(check_reference("example"), Err(LocalCodeError::Reference));
    }

    #[test]
    fn a_target_selects_the_kinds_of_record() {
        let kinds = [RecordKind::Individual, RecordKind::Group, RecordKind::Program];
        let carried = |target: IdTarget| kinds.map(|kind| target.includes(kind));
        assert_eq!(carried(IdTarget::Both), [true, true, true]);
        assert_eq!(carried(IdTarget::Individual), [true, false, false]);
        assert_eq!(carried(IdTarget::Group), [false, true, false]);
    }
}
