//! Open vocabularies: their codes follow a grammar, which only their pack can parse.
//!
//! The server queries the pack for a code that such a vocabulary does not list. The pack returns the concept in its
//! normalized spelling, or the reason why the code is malformed. The server also queries the unlisted ancestors, so
//! that the hierarchy is complete.
//!
//! **Invariant:** queries are bounded: at most [`ABOVE_MAX`] further codes per code, and at most [`ASKING_MAX`] per
//! request. Results are cached within fixed bounds while the same vocabularies are active.
//!
//! **Invariant:** a resolved concept with its ancestors is at most [`ANSWER_BYTES_MAX`].
//!
//! **Invariant:** a pack that returns another spelling for a normalized spelling contradicts itself and is rejected.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::digest::ContentDigest;
use super::generation::{Generation, PackOrigin};
use daftar_domain::code::{Code, CodeUri, Namespace};
use daftar_domain::vocabulary::Concept;

/// Maximum number of unlisted ancestors of a code.
pub const ABOVE_MAX: usize = 16;

/// Maximum number of codes in one call of a pack. The codes share one fuel budget.
const BATCH_CODES: usize = 256;

/// Time limit for a pack to validate the codes of one request. This is a backstop: a thousand language tags need a
/// tenth of it.
const ASKING_MAX: Duration = Duration::from_secs(3);

/// Maximum size of the response of a pack about one code, in bytes of text: a dozen levels with labels in forty
/// languages.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Maximum number of cached results in each of two halves: the younger and the older one.
const CACHED_MAX: usize = 2_048;

/// Maximum size of the cached text in each half, in bytes.
const CACHED_BYTES_MAX: usize = 4 << 20;

/// Thread that queries a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallingThread {
    /// A thread that may block until the pack returns; never a worker of the async runtime.
    MayWait,
    /// A thread of the sandbox, which calls the pack directly.
    Sandbox,
}

/// Response of a pack for a code: its concept, or an error message.
pub type ResolvedConcept = Result<Concept, String>;

/// Error: a pack returned no valid result for a code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pack of the open vocabulary `{namespace}` returned no valid result")]
pub struct OpenUnavailable {
    /// The vocabulary.
    pub namespace: Namespace,
    /// The reason.
    pub failure: OpenFailure,
}

/// The reason why a pack returned no valid result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFailure {
    /// The reason, for the log.
    pub reason: String,
    /// True if the same call fails again, because the pack is a function of its input. False if the pack is temporarily
    /// unavailable.
    pub is_lasting: bool,
}

/// Queries the packs that provide open vocabularies.
pub trait OpenPacks: Send + Sync {
    /// Returns one response for each code, in order.
    ///
    /// # Errors
    /// Returns the reason for the log if the pack returns no responses.
    fn resolve(
        &self,
        pack: &PackOrigin,
        namespace: &Namespace,
        codes: &[Code],
        thread: CallingThread,
    ) -> Result<Vec<ResolvedConcept>, OpenFailure>;

    /// Counts an invalid result as a fault of the pack.
    fn record_invalid(&self, pack: &PackOrigin);
}

/// A code with the response of its pack.
#[derive(Debug, Clone, PartialEq)]
pub struct QueriedCode {
    /// The code in the spelling of the request.
    pub written: CodeUri,
    /// The concept, or the error message of the pack.
    pub answer: Result<ResolvedCode, String>,
}

/// A code that its pack accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedCode {
    /// The concept, in its normalized spelling.
    pub concept: Concept,
    /// Its unlisted ancestors.
    pub above: Vec<Concept>,
}

impl ResolvedCode {
    /// Returns the size of its text, in bytes.
    fn text_bytes(&self) -> usize {
        std::iter::once(&self.concept).chain(&self.above).map(text_bytes).sum()
    }

    /// Returns the code in its normalized spelling.
    #[must_use]
    pub fn uri(&self, namespace: &Namespace) -> CodeUri {
        CodeUri { namespace: namespace.clone(), code: self.concept.code.clone() }
    }
}

/// Looks up codes in packs, and caches the results.
pub struct OpenCodes {
    packs: Arc<dyn OpenPacks>,
    cached: Mutex<CachedCodes>,
}

/// Cached results of the packs of one generation. They are not part of its digest.
#[derive(Default)]
struct CachedCodes {
    of: Option<(ContentDigest, Vec<PackOrigin>)>,
    young: HashMap<CodeUri, Arc<QueriedCode>>,
    /// Size of the text in `young`, in bytes.
    young_bytes: usize,
    old: HashMap<CodeUri, Arc<QueriedCode>>,
}

impl CachedCodes {
    fn is_of(&self, generation: &Generation) -> bool {
        self.of.as_ref().is_some_and(|(digest, packs)| digest == generation.digest() && packs == generation.packs())
    }
}

impl std::fmt::Debug for OpenCodes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OpenCodes").finish_non_exhaustive()
    }
}

/// An implementation of [`OpenPacks`] without packs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPacks;

impl OpenPacks for NoPacks {
    fn resolve(
        &self,
        _: &PackOrigin,
        _: &Namespace,
        _: &[Code],
        _: CallingThread,
    ) -> Result<Vec<ResolvedConcept>, OpenFailure> {
        Err(OpenFailure { reason: "no packs can be asked".to_owned(), is_lasting: false })
    }

    fn record_invalid(&self, _: &PackOrigin) {}
}

impl OpenCodes {
    /// Creates a lookup that queries `packs`.
    #[must_use]
    pub fn new(packs: Arc<dyn OpenPacks>) -> Self {
        Self { packs, cached: Mutex::default() }
    }

    /// Counts an invalid result as a fault of the pack that provides the vocabulary.
    pub fn record_invalid(&self, generation: &Generation, namespace: &Namespace) {
        if let Some(pack) = generation.pack_of(namespace) {
            self.packs.record_invalid(pack);
        }
    }

    /// Returns the responses of packs for the codes, each once. Codes that need no validation are omitted.
    ///
    /// # Errors
    /// Returns an error if a pack does not respond, or if its response is invalid.
    pub fn look_up<'a>(
        &self,
        generation: &Generation,
        codes: impl IntoIterator<Item = &'a CodeUri>,
        thread: CallingThread,
    ) -> Result<Vec<Arc<QueriedCode>>, OpenUnavailable> {
        let mut seen = HashSet::new();
        let mut requested = Vec::new();
        let mut unknown: HashMap<&Namespace, Vec<Code>> = HashMap::new();
        for uri in codes {
            if !generation.needs_lookup(uri) || !seen.insert(uri) {
                continue;
            }
            match self.cached(generation, uri) {
                Some(known) => requested.push(known),
                None => unknown.entry(&uri.namespace).or_default().push(uri.code.clone()),
            }
        }
        for (namespace, codes) in unknown {
            for code in self.look_up_in_pack(generation, namespace, codes, thread)? {
                requested.push(self.cache(generation, code));
            }
        }
        Ok(requested)
    }

    fn look_up_in_pack(
        &self,
        generation: &Generation,
        namespace: &Namespace,
        codes: Vec<Code>,
        thread: CallingThread,
    ) -> Result<Vec<QueriedCode>, OpenUnavailable> {
        let failed = |failure: OpenFailure| OpenUnavailable { namespace: namespace.clone(), failure };
        let passing = |reason: String| failed(OpenFailure { reason, is_lasting: false });
        let pack = generation.pack_of(namespace).ok_or_else(|| passing("no pack contains it".to_owned()))?;
        let invalid = |reason: String| {
            self.packs.record_invalid(pack);
            failed(OpenFailure { reason, is_lasting: true })
        };
        let begun = Instant::now();
        let resolve = |codes: &[Code]| -> Result<Vec<ResolvedConcept>, OpenUnavailable> {
            let mut all = Vec::with_capacity(codes.len());
            for batch in codes.chunks(BATCH_CODES) {
                if begun.elapsed() > ASKING_MAX {
                    return Err(passing(format!("it takes longer than {} s", ASKING_MAX.as_secs())));
                }
                let answers = self.packs.resolve(pack, namespace, batch, thread).map_err(failed)?;
                if answers.len() != batch.len() {
                    return Err(invalid("not one answer a code".to_owned()));
                }
                all.extend(answers);
            }
            Ok(all)
        };
        let mut normal: HashMap<Code, Concept> = HashMap::new();
        let answers = resolve(&codes)?;
        let is_listed =
            |code: &Code| generation.vocabulary(namespace).is_some_and(|listed| listed.find(code.as_str()).is_some());
        // Codes whose normalized spelling is unknown: requested spellings, then ancestors, level by level.
        let mut wanted: Vec<Code> = Vec::new();
        for (code, answer) in codes.iter().zip(&answers) {
            let Ok(concept) = answer else { continue };
            if concept.code == *code {
                normal.insert(code.clone(), concept.clone());
            } else if !is_listed(&concept.code) {
                wanted.push(concept.code.clone());
            }
        }
        for _ in 0..=ABOVE_MAX {
            wanted.extend(normal.values().flat_map(links).cloned());
            wanted.sort_unstable();
            wanted.dedup();
            wanted.retain(|code| !normal.contains_key(code) && !is_listed(code));
            if wanted.is_empty() {
                break;
            }
            if normal.len() + wanted.len() > codes.len() * (ABOVE_MAX + 1) {
                return Err(invalid(format!("more than {ABOVE_MAX} codes lie above some code")));
            }
            let batch = std::mem::take(&mut wanted);
            for (code, answer) in batch.iter().zip(resolve(&batch)?) {
                match answer {
                    Ok(concept) if concept.code == *code => drop(normal.insert(code.clone(), concept)),
                    Ok(other) => {
                        let reason = format!("it gives `{code}`, which it named itself, as `{}`", other.code);
                        return Err(invalid(reason));
                    }
                    Err(sentence) => {
                        return Err(invalid(format!("it named `{code}` itself and refuses it: {sentence}")));
                    }
                }
            }
        }
        let mut requested = Vec::with_capacity(codes.len());
        for (code, answer) in codes.into_iter().zip(answers) {
            let answer = match answer {
                Ok(concept) => {
                    let spelt = normal.get(&concept.code).unwrap_or(&concept).clone();
                    let above = above(&spelt, &normal, &is_listed)
                        .ok_or_else(|| invalid(format!("more than {ABOVE_MAX} codes lie above `{code}`")))?;
                    let resolved = ResolvedCode { concept: spelt, above };
                    let bytes = resolved.text_bytes();
                    if bytes > ANSWER_BYTES_MAX {
                        return Err(invalid(format!(
                            "it says {bytes} bytes about `{code}`, more than {ANSWER_BYTES_MAX}"
                        )));
                    }
                    Ok(resolved)
                }
                Err(sentence) => Err(sentence),
            };
            requested.push(QueriedCode { written: CodeUri { namespace: namespace.clone(), code }, answer });
        }
        Ok(requested)
    }

    /// Returns the number of cached results.
    #[cfg(test)]
    pub(super) fn cached_count(&self) -> usize {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.young.len() + cached.old.len()
    }

    fn cached(&self, generation: &Generation, uri: &CodeUri) -> Option<Arc<QueriedCode>> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if !cached.is_of(generation) {
            return None;
        }
        cached.young.get(uri).or_else(|| cached.old.get(uri)).cloned()
    }

    fn cache(&self, generation: &Generation, code: QueriedCode) -> Arc<QueriedCode> {
        let code = Arc::new(code);
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if !cached.is_of(generation) {
            let of = Some((*generation.digest(), generation.packs().to_vec()));
            *cached = CachedCodes { of, ..CachedCodes::default() };
        }
        let bytes = code.written.code.as_str().len()
            + code.answer.as_ref().map_or_else(|sentence| sentence.len(), ResolvedCode::text_bytes);
        if cached.young.len() >= CACHED_MAX || cached.young_bytes + bytes > CACHED_BYTES_MAX {
            cached.old = std::mem::take(&mut cached.young);
            cached.young_bytes = 0;
        }
        cached.young_bytes += bytes;
        cached.young.insert(code.written.clone(), code.clone());
        code
    }
}

/// Returns the codes that a concept references.
fn links(concept: &Concept) -> impl Iterator<Item = &Code> {
    concept.parents.iter().chain(&concept.replaced_by)
}

/// Returns the size of the text of a concept, in bytes.
fn text_bytes(concept: &Concept) -> usize {
    let texts = concept.labels.iter().chain(&concept.definitions).map(|text| text.language.len() + text.value.len());
    let properties = concept.properties.iter().map(|(key, value)| key.len() + value.len());
    let aliases = concept.aliases.iter().map(String::len);
    let codes = std::iter::once(&concept.code).chain(links(concept)).map(|code| code.as_str().len());
    let uri = concept.uri.as_ref().map_or(0, String::len);
    texts.chain(properties).chain(aliases).chain(codes).sum::<usize>() + uri
}

/// Returns the unlisted ancestors of a concept, each once. Returns `None` if there are too many.
fn above(
    concept: &Concept,
    normal: &HashMap<Code, Concept>,
    is_listed: &impl Fn(&Code) -> bool,
) -> Option<Vec<Concept>> {
    let mut found: Vec<Concept> = Vec::new();
    let mut waiting: Vec<&Code> = links(concept).collect();
    while let Some(code) = waiting.pop() {
        if is_listed(code) || *code == concept.code || found.iter().any(|known| known.code == *code) {
            continue;
        }
        let next = normal.get(code)?;
        if found.len() >= ABOVE_MAX {
            return None;
        }
        found.push(next.clone());
        waiting.extend(links(next));
    }
    Some(found)
}
