//! Vocabularies and their codes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};

/// The most codes of a request.
pub const BATCH_CODES_MAX: usize = 1_000;

/// A code list without its codes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Vocabulary<'a> {
    /// The namespace of its codes.
    pub namespace: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// The domain that it belongs to.
    pub domain: Cow<'a, str>,
    /// Its version.
    pub version: Cow<'a, str>,
    /// The publication that it is taken from.
    pub source: Cow<'a, str>,
    /// The licence of the publication.
    pub licence: Cow<'a, str>,
    /// The attribution that the licence requires.
    pub attribution: Cow<'a, str>,
    /// The language of a name where those that the client accepts have none.
    pub default_language: Cow<'a, str>,
    /// The languages of its names.
    pub languages: Cow<'a, [String]>,
    /// The number of its codes.
    pub code_count: usize,
    /// True if codes are below other codes.
    pub hierarchical: bool,
    /// Share of the publication's codes that it contains.
    pub completeness: Completeness,
    /// True if the server needs it.
    pub system: bool,
    /// True if the administrator may add codes.
    pub extensible: bool,
    /// True if codes exist beside those that are listed.
    pub open: bool,
    /// The plugin that provides it; `null` for a vocabulary of the server.
    #[schema(required)]
    pub module: Option<Cow<'a, str>>,
    /// The version of the plugin.
    #[schema(required)]
    pub module_version: Option<Cow<'a, str>>,
    /// The digest of its codes.
    pub digest: Cow<'a, str>,
    /// The version before this one, which can be read too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_version: Option<Cow<'a, str>>,
    /// The active version, where this one is not active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<Cow<'a, str>>,
}

/// Share of a publication's codes that a vocabulary contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// All.
    Full,
    /// Some.
    Fragment,
    /// None.
    Empty,
}

/// A code with its name and the language of the name.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LabelledCode<'a> {
    /// `<namespace>#<code>`
    pub uri: Cow<'a, str>,
    /// The code without its namespace.
    pub code: Cow<'a, str>,
    /// Its name.
    pub display: Cow<'a, str>,
    /// The vocabulary.
    pub namespace: Cow<'a, str>,
    /// The language of the name.
    pub language: Cow<'a, str>,
    /// `true` where the name is in the default language because those that the client accepts have none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// `true` for a code that the administrator added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
}

/// A code whose vocabulary is not installed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct BareCode<'a> {
    /// `<namespace>#<code>`
    pub uri: Cow<'a, str>,
    /// The code without its namespace.
    pub code: Cow<'a, str>,
    /// The code again: it has no name.
    pub display: Cow<'a, str>,
    /// The vocabulary.
    pub namespace: Cow<'a, str>,
}

/// A code above another, or that replaces it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct NeighbourCode<'a> {
    /// `<namespace>#<code>`
    pub uri: Cow<'a, str>,
    /// The code without its namespace.
    pub code: Cow<'a, str>,
    /// Its name.
    pub display: Cow<'a, str>,
}

/// A text in one language.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Text<'a> {
    /// The language.
    pub language: Cow<'a, str>,
    /// The text.
    pub value: Cow<'a, str>,
}

/// Status of a code: new records accept only `active` ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeStatus {
    /// They may.
    Active,
    /// They may not; records that hold it stay valid.
    Deprecated,
}

/// A code with all its properties.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Concept<'a> {
    /// The code with its name.
    #[serde(flatten)]
    pub coded: LabelledCode<'a>,
    /// Its meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<Text<'a>>,
    /// The number of levels above it.
    pub level: u32,
    /// The codes directly above it.
    pub parents: Vec<NeighbourCode<'a>>,
    /// The number of codes directly below it.
    pub children_count: usize,
    /// The number of codes below it on all levels.
    pub descendants_count: usize,
    /// True if new records may hold it.
    pub status: CodeStatus,
    /// `false` for a heading that only groups other codes.
    pub selectable: bool,
    /// The code to use instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<NeighbourCode<'a>>,
    /// Its name in all languages.
    pub designations: Vec<Text<'a>>,
    /// Other codes that mean the same.
    pub aliases: Vec<Cow<'a, str>>,
    /// Further properties that the publication gives.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// The publisher's own URI for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_uri: Option<Cow<'a, str>>,
    /// The alias that the request names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_code: Option<Cow<'a, str>>,
}

/// A code that a search found.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FoundCode<'a> {
    /// The code with its name.
    #[serde(flatten)]
    pub coded: LabelledCode<'a>,
    /// True if new records may hold it.
    pub status: CodeStatus,
    /// `false` for a heading that only groups other codes.
    pub selectable: bool,
    /// The publisher's own URI for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_uri: Option<Cow<'a, str>>,
    /// The text that matched.
    #[serde(rename = "match")]
    pub matched: Match<'a>,
}

/// The text of a code that matched a search.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Match<'a> {
    /// Kind of the match.
    pub kind: MatchKind,
    /// The text.
    pub text: Cow<'a, str>,
    /// The language of a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Cow<'a, str>>,
}

/// Kinds of matches of a search, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchKind {
    /// The code itself.
    Code,
    /// The first words of a name.
    Prefix,
    /// Words of a name.
    Words,
    /// Words of a name, with one typing error.
    OneEdit,
}

/// The relation of two codes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Subsumption<'a> {
    /// The relation of `a` to `b`.
    pub outcome: SubsumptionOutcome,
    /// The vocabulary.
    pub namespace: Cow<'a, str>,
    /// The first code, as the request has it.
    pub a: Cow<'a, str>,
    /// The second code, as the request has it.
    pub b: Cow<'a, str>,
}

/// The relation of a code to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubsumptionOutcome {
    /// They are the same code.
    Equivalent,
    /// It is above the other.
    Subsumes,
    /// It is below the other.
    SubsumedBy,
    /// Neither is above the other.
    NotSubsumed,
}

/// Codes to be checked.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CodeBatch<'a> {
    /// The codes.
    #[schema(schema_with = codes)]
    pub codes: Vec<RequestedCode<'a>>,
}

/// Texts without NUL, which no request may hold.
fn codes() -> Array {
    let uri = ObjectBuilder::new().schema_type(Type::String).pattern(Some(r"^[^\x00]*$"));
    let code = OneOfBuilder::new()
        .item(uri.description(Some("`<namespace>#<code>`")))
        .item(Ref::from_schema_name(CodeParts::name()))
        .item(Ref::from_schema_name(ShownCode::name()));
    ArrayBuilder::new().items(code).max_items(Some(BATCH_CODES_MAX)).build()
}

/// A code, in one of three forms.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestedCode<'a> {
    /// `<namespace>#<code>`
    Uri(Cow<'a, str>),
    /// Namespace and code.
    Parts(CodeParts<'a>),
    /// A code as responses have it.
    Shown(ShownCode<'a>),
}

/// Namespace and code.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CodeParts<'a> {
    /// The vocabulary.
    #[schema(pattern = r"^[^\x00]*$")]
    pub namespace: Cow<'a, str>,
    /// The code without its namespace.
    #[schema(pattern = r"^[^\x00]*$")]
    pub code: Cow<'a, str>,
}

/// A code as responses have it. Only `uri` counts.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ShownCode<'a> {
    /// `<namespace>#<code>`
    #[schema(pattern = r"^[^\x00]*$")]
    pub uri: Cow<'a, str>,
    /// The code without its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^[^\x00]*$")]
    pub code: Option<Cow<'a, str>>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^[^\x00]*$")]
    pub display: Option<Cow<'a, str>>,
    /// The vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^[^\x00]*$")]
    pub namespace: Option<Cow<'a, str>>,
    /// The language of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^[^\x00]*$")]
    pub language: Option<Cow<'a, str>>,
    /// True if the name is in the default language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<bool>,
    /// True if the administrator added the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<bool>,
}

/// Results in the order of the codes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Validities<'a> {
    /// One result for each code.
    pub results: Vec<Validity<'a>>,
}

/// True if new records may hold a code.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Validity<'a> {
    /// The code as the request has it.
    pub uri: Cow<'a, str>,
    /// True if they may.
    pub valid: bool,
    /// The stable name of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// One sentence for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Cow<'a, str>>,
    /// The closest valid code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Cow<'a, str>>,
}

/// Results in the order of the codes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LookedUp<'a> {
    /// One result for each code.
    pub results: Vec<LookedUpCode<'a>>,
}

/// A code, or the reason why it has no properties.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum LookedUpCode<'a> {
    /// The code exists.
    Found(Box<FoundConcept<'a>>),
    /// The code does not exist.
    Missing(MissingCode<'a>),
}

/// A code that exists.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FoundConcept<'a> {
    /// Always `true`.
    #[schema(schema_with = always_true)]
    pub found: bool,
    /// The code.
    #[serde(flatten)]
    pub concept: Concept<'a>,
}

/// A code that does not exist.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MissingCode<'a> {
    /// The code as the request has it.
    pub uri: Cow<'a, str>,
    /// Always `false`.
    #[schema(schema_with = always_false)]
    pub found: bool,
    /// The stable name of the problem.
    pub reason: Cow<'a, str>,
    /// One sentence for a person.
    pub message: Cow<'a, str>,
    /// The closest valid code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Cow<'a, str>>,
}

fn always_true() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true])).into()
}

fn always_false() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([false])).into()
}
