//! Codes that the administrator adds to a vocabulary that takes them.
//!
//! **Invariant:** a local code is never deleted and its code is never given to anything else: records hold it.

use jiff::Timestamp;

use super::code::{Code, CodeUri};
use super::hidden::hidden_character;
use super::identifier::has_scheme;
use super::record::RecordKind;
use super::vocabulary::{ID_TYPE_NAMESPACE, LocalizedText};

/// The vocabulary of pregnancy statuses: the registry's own, empty until the administrator fills it.
pub const PREGNANCY_STATUS_NAMESPACE: &str = "urn:svc:vocab:pregnancy-status";
/// The vocabularies that take local codes.
pub const EXTENSIBLE_NAMESPACES: [&str; 3] =
    [ID_TYPE_NAMESPACE, "urn:svc:vocab:ethnocultural", PREGNANCY_STATUS_NAMESPACE];
/// The property of a pack's code that belongs to a starter set: the administrator may set it aside like a local code.
pub const STARTER_PROPERTY: &str = "starter";
/// The most local codes of a registry.
pub const LOCAL_CODES_MAX: usize = 1_000;
/// The longest local code, in bytes.
pub const LOCAL_CODE_BYTES_MAX: usize = 64;
/// The most labels of one local code.
pub const LABELS_MAX: usize = 50;
/// The longest label of a local code, in bytes.
pub const LABEL_BYTES_MAX: usize = 200;
/// The longest reference of a local code, in bytes.
pub const REFERENCE_BYTES_MAX: usize = 500;
/// The longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// The longest description of a pattern, in bytes.
pub const PATTERN_DESCRIPTION_BYTES_MAX: usize = 200;

/// Why something cannot be part of a local code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalCodeError {
    /// Not the shape of a local code.
    #[error(
        "a local code has 1 to {LOCAL_CODE_BYTES_MAX} lower-case letters, digits and underscores and begins with a letter, such as `farmer_id`"
    )]
    Code,
    /// No label at all.
    #[error("a local code needs a label: write one as `en=Farmer ID`")]
    NoLabel,
    /// Too many labels.
    #[error("a local code has at most {LABELS_MAX} labels")]
    TooManyLabels,
    /// Two labels in one language.
    #[error("there are two labels in the language `{0}`")]
    LabelTwice(String),
    /// Not a language tag.
    #[error("`{}` is no BCP 47 language tag, such as `en` or `pt-BR`", .0.escape_debug())]
    Language(String),
    /// Not a label.
    #[error("a label has 1 to {LABEL_BYTES_MAX} bytes in one line, without white space at its ends")]
    Label,
    /// A label with a character that nobody sees.
    #[error(
        "a label has no control characters and no invisible ones, such as U+200B or U+202E; take out {}", told(*.0)
    )]
    HiddenCharacter(char),
    /// Not a URI.
    #[error("a reference is an absolute URI of at most {REFERENCE_BYTES_MAX} visible ASCII characters")]
    Reference,
    /// Not a pattern within bounds.
    #[error("a pattern is a regular expression of 1 to {PATTERN_BYTES_MAX} bytes without control characters")]
    Pattern,
    /// Not a description of a pattern.
    #[error(
        "a pattern is described in 1 to {PATTERN_DESCRIPTION_BYTES_MAX} bytes, as whoever writes a wrong value will read it, such as `ten digits`"
    )]
    PatternDescription,
}

/// A code of the deployment's own, or what it decided about one of a starter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCode {
    /// Which code.
    pub uri: CodeUri,
    /// Where the code comes from.
    pub origin: LocalOrigin,
    /// The code of the same vocabulary that it is a kind of; it counts wherever that one does.
    pub specialises: Option<Code>,
    /// What it is called, at most once a language, at least one for a code of the deployment's own.
    pub labels: Vec<LocalizedText>,
    /// Where more is said about it.
    pub reference: Option<String>,
    /// What identifiers of this type look like; only for ID types.
    pub id_type: Option<IdTypeRule>,
    /// Whether new records may hold it.
    pub standing: LocalStanding,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Where a local code comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalOrigin {
    /// The administrator added it.
    Deployment,
    /// A pack brings it as part of a starter set; only its standing is the deployment's.
    StarterSet,
}

/// Whether new records may hold a local code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalStanding {
    /// They may.
    Active,
    /// It stays valid in old records only.
    Deprecated {
        /// The code to use in its place.
        replaced_by: Option<Code>,
    },
}

/// What identifiers of a type look like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdTypeRule {
    /// What values look like; any, where absent.
    pub pattern: Option<ValuePattern>,
    /// What carries such identifiers.
    pub target: IdTarget,
}

/// What values of an identifier look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePattern {
    /// A regular expression; the whole value has to match.
    pub expression: String,
    /// The same in words, for whoever wrote a value that does not match.
    pub description: String,
}

named_enum! {
    /// What carries identifiers of a type.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum IdTarget {
        /// People.
        Individual = "individual",
        /// Groups.
        Group = "group",
        /// Either.
        #[default]
        Both = "both",
    }
}

impl IdTarget {
    /// Whether a record of that kind may carry such an identifier.
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
    /// Whether new records may hold it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.standing == LocalStanding::Active
    }

    /// The code to use in place of a deprecated one.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&Code> {
        match &self.standing {
            LocalStanding::Active => None,
            LocalStanding::Deprecated { replaced_by } => replaced_by.as_ref(),
        }
    }
}

/// Reads a local code.
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
/// What is wrong with the first that cannot be.
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
    /// Takes an expression within bounds; whether it is one is for whoever compiles it.
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

fn told(character: char) -> String {
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
    fn labels_are_lines_once_a_language() {
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
            "a label has no control characters and no invisible ones, such as U+200B or U+202E; take out U+202E"
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
    fn a_target_says_which_records_carry_the_identifier() {
        let kinds = [RecordKind::Individual, RecordKind::Group, RecordKind::Program];
        let carried = |target: IdTarget| kinds.map(|kind| target.includes(kind));
        assert_eq!(carried(IdTarget::Both), [true, true, true]);
        assert_eq!(carried(IdTarget::Individual), [true, false, false]);
        assert_eq!(carried(IdTarget::Group), [false, true, false]);
    }
}
