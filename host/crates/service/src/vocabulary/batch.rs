//! Many codes at once: are they right, and what are they.

use daftar_domain::code::{CODE_BYTES_MAX, CodeUri, NAMESPACE_BYTES_MAX};
use daftar_domain::context::OpContext;
use daftar_vocabulary::{ConceptRef, Generation, LookUpProblem};

/// For how many wrong codes of one request it is searched what was meant: each search takes up to a millisecond, and a batch of
/// nothing but wrong codes is a mapping that went wrong, of which a hundred examples tell enough.
pub const SEARCHES_MAX: usize = 100;
/// How much of a text that is no code is repeated in the answer, in bytes.
const SHOWN_BYTES_MAX: usize = NAMESPACE_BYTES_MAX + CODE_BYTES_MAX + 1;

/// A code as somebody wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// In one text.
    Uri(String),
    /// In two.
    Parts {
        /// The namespace.
        namespace: String,
        /// The code.
        code: String,
    },
}

impl Asked {
    /// What stands in the place of the code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Uri(text) => text.split_once(['#', '|']).map_or("", |(_, code)| code),
            Self::Parts { code, .. } => code,
        }
    }
}

/// Why a code is refused, or what it is.
#[derive(Debug)]
pub struct Answer<T> {
    /// The code's URI, or the beginning of what stands in its place.
    pub uri: String,
    /// What it is.
    pub outcome: Result<T, Refused>,
}

/// Why a code is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The stable name of the reason.
    pub reason: &'static str,
    /// One sentence that says what would be right.
    pub message: String,
    /// The nearest code that is right.
    pub suggestion: Option<String>,
}

/// A code that is there.
#[derive(Debug, Clone, Copy)]
pub struct LookedUp<'g> {
    /// The code.
    pub concept: ConceptRef<'g>,
    /// Whether it was asked for by another name, or in another spelling of an open vocabulary.
    pub is_alias: bool,
}

/// Those of the codes that can be read.
#[must_use]
pub fn readable(asked: &[Asked]) -> Vec<CodeUri> {
    let parsed = asked.iter().map(|asked| match asked {
        Asked::Uri(text) => CodeUri::parse(text),
        Asked::Parts { namespace, code } => CodeUri::from_parts(namespace, code),
    });
    parsed.filter_map(Result::ok).collect()
}

/// Whether new records may hold the codes, in their order.
pub fn validate<'g>(_: &OpContext, generation: &'g Generation, asked: &[Asked]) -> Vec<Answer<ConceptRef<'g>>> {
    answers(generation, asked, |uri| generation.check_code(uri))
}

/// What the codes are, in their order.
pub fn lookup<'g>(_: &OpContext, generation: &'g Generation, asked: &[Asked]) -> Vec<Answer<LookedUp<'g>>> {
    answers(generation, asked, |uri| {
        let (concept, _) = generation.look_up_by_any_name(uri)?;
        Ok(LookedUp { concept, is_alias: concept.code() != uri.code.as_str() })
    })
}

fn answers<T>(
    generation: &Generation,
    asked: &[Asked],
    decide: impl Fn(&CodeUri) -> Result<T, LookUpProblem>,
) -> Vec<Answer<T>> {
    let mut searches_left = SEARCHES_MAX;
    let mut decide_within = |uri: &CodeUri| {
        let absent = generation.plainly_absent(uri);
        match absent {
            Some(problem) if searches_left == 0 => return Err(problem),
            Some(_) => searches_left -= 1,
            None => {}
        }
        decide(uri)
    };
    asked.iter().map(|asked| answer(asked, &mut decide_within)).collect()
}

fn answer<T>(asked: &Asked, decide: impl FnOnce(&CodeUri) -> Result<T, LookUpProblem>) -> Answer<T> {
    let (parsed, namespace, code) = match asked {
        Asked::Uri(text) => {
            let (namespace, code) = text.split_once(['#', '|']).unwrap_or((text, ""));
            (CodeUri::parse(text), namespace, code)
        }
        Asked::Parts { namespace, code } => (CodeUri::from_parts(namespace, code), namespace.as_str(), code.as_str()),
    };
    match parsed {
        Ok(uri) => Answer { outcome: decide(&uri).map_err(Refused::from), uri: uri.to_string() },
        Err(error) => {
            let is_too_long = namespace.len() > NAMESPACE_BYTES_MAX || code.len() > CODE_BYTES_MAX;
            let reason = if is_too_long { "too_long" } else { "malformed" };
            let written = match asked {
                Asked::Uri(text) => shown(text),
                Asked::Parts { namespace, code } => shown(&format!("{namespace}#{code}")),
            };
            Answer { uri: written, outcome: Err(Refused { reason, message: error.to_string(), suggestion: None }) }
        }
    }
}

impl From<LookUpProblem> for Refused {
    fn from(problem: LookUpProblem) -> Self {
        Self {
            reason: problem.reason(),
            message: problem.to_string(),
            suggestion: problem.suggestion().map(str::to_owned),
        }
    }
}

/// The beginning of a text that was refused.
fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    let beginning = text.get(..end).unwrap_or_default();
    if end < text.len() { format!("{beginning}…") } else { beginning.to_owned() }
}
