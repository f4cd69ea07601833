//! Codes of open vocabularies in requests and records: asked of their packs, and numbered when a record keeps them.
//!
//! **Invariant:** a code gets a lasting number only when a record is about to keep it, in its normal spelling; whoever only asks
//! leaves nothing behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::registry::Registry;
use crate::domain::code::{CodeUri, CodedValue};
use crate::error::AppError;
use crate::vocab::{AskedCode, CallingThread, CodeTable, Generation, OpenProblem, OpenUnavailable};

/// How many codes of one open vocabulary records may hold beside those that it lists: its pack is asked about each of them
/// whenever it is published.
pub const KEPT_MAX: usize = 10_000;

/// How many stored codes are put to a pack at once.
const BATCH_CODES: usize = 256;

/// A generation that knows the codes of one request.
#[derive(Debug, Clone)]
pub struct Consulted {
    /// The vocabularies with what packs said; good for this request only.
    pub generation: Arc<Generation>,
    asked: Vec<Arc<AskedCode>>,
}

impl Consulted {
    /// Whether any pack was asked.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Gives lasting numbers to the codes that were asked about, and publishes what is known of them: a record will keep them.
    ///
    /// # Errors
    /// [`AppError::Invalid`] when too many codes of the vocabulary are kept already, or when the store fails.
    pub async fn keep(self, registry: &Registry) -> Result<Kept, AppError> {
        let changing = registry.vocabularies.changing();
        let _changing = changing.lock().await;
        let current = registry.vocabularies.current();
        let stored = registry.store.code_table().await?;
        let table = self::table(&stored)?;
        let mut unnumbered: BTreeSet<CodeUri> = BTreeSet::new();
        for asked in &self.asked {
            let Ok(resolved) = &asked.answer else { continue };
            let uri = resolved.uri(&asked.written.namespace);
            if table.number(&uri).is_none() && current.vocabulary(&uri.namespace).is_some() {
                check_room(&current, &table, &uri, unnumbered.len())?;
                unnumbered.insert(uri);
            }
        }
        if !unnumbered.is_empty() {
            registry.store.number_codes(unnumbered.into_iter().collect(), Vec::new()).await?;
        }
        let stored = registry.store.code_table().await?;
        let table = Arc::new(self::table(&stored)?);
        for asked in &self.asked {
            let Ok(resolved) = &asked.answer else { continue };
            // Its pack may have gone while the request was looked at.
            let namespace = &asked.written.namespace;
            if table.number(&resolved.uri(namespace)).is_none() {
                return Err(AppError::VocabularyUnavailable(namespace.clone()));
            }
        }
        let generation =
            current.with_open(&self.asked, Some(table)).map_err(|problem| unsound(&problem, &self.asked))?;
        Ok(Kept { generation: registry.vocabularies.publish(generation), before: self.generation })
    }
}

/// A generation in force that has lasting numbers for the codes of a request.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The vocabularies.
    pub generation: Arc<Generation>,
    before: Arc<Generation>,
}

impl Kept {
    /// The value that a record keeps for one that was good for the request only.
    #[must_use]
    pub fn lasting(&self, value: CodedValue) -> CodedValue {
        let lasting = self.before.table().uri(value.number).and_then(|uri| self.generation.number_of(&uri));
        CodedValue { number: lasting.unwrap_or(value.number), ..value }
    }
}

/// A generation that knows all of some codes, as far as packs do.
///
/// # Errors
/// [`AppError::VocabularyUnavailable`] when a pack does not answer.
pub async fn consult(
    registry: &Registry,
    generation: Arc<Generation>,
    codes: impl FnOnce() -> Vec<CodeUri>,
) -> Result<Consulted, AppError> {
    // Nearly always nothing is open, and then nothing is gathered.
    if !generation.has_open_vocabularies() {
        return Ok(Consulted { generation, asked: Vec::new() });
    }
    let mut codes = codes();
    codes.retain(|uri| generation.must_ask(uri));
    if codes.is_empty() {
        return Ok(Consulted { generation, asked: Vec::new() });
    }
    let vocabularies = registry.vocabularies.clone();
    let consulted = tokio::task::spawn_blocking(move || {
        let asked = vocabularies.open().ask(&generation, &codes, CallingThread::MayWait).map_err(unavailable)?;
        let consulted = generation.with_open(&asked, None).map_err(|problem| unsound(&problem, &asked))?;
        let generation = Arc::new(consulted);
        Ok(Consulted { generation, asked })
    });
    consulted.await.map_err(|error| AppError::Internal(error.into()))?
}

/// The same on a thread of the sandbox.
///
/// # Errors
/// As [`consult`].
pub(super) fn consult_here(
    registry: &Registry,
    generation: Arc<Generation>,
    codes: &[CodeUri],
) -> Result<Arc<Generation>, AppError> {
    let asked = registry.vocabularies.open().ask(&generation, codes, CallingThread::Sandbox).map_err(unavailable)?;
    if asked.is_empty() {
        return Ok(generation);
    }
    generation.with_open(&asked, None).map(Arc::new).map_err(|problem| unsound(&problem, &asked))
}

/// The generation with everything that records hold of open vocabularies, as their packs tell it now. What a pack no longer knows, or
/// does not answer to, is shown as the bare code, as of a pack that is gone. Waits for packs: not for async code.
pub(super) fn with_kept(registry: &Registry, generation: Generation) -> Generation {
    let open = generation.vocabularies().filter(|vocabulary| vocabulary.description().is_open);
    let namespaces: Vec<_> = open.map(|vocabulary| vocabulary.namespace().clone()).collect();
    let mut asked = Vec::new();
    for namespace in &namespaces {
        for batch in generation.unasked(namespace).chunks(BATCH_CODES).take(KEPT_MAX.div_ceil(BATCH_CODES)) {
            match registry.vocabularies.open().ask(&generation, batch, CallingThread::MayWait) {
                Ok(answers) => asked.extend(answers),
                Err(error) => tracing::error!(
                    vocabulary = %namespace, reason = error.reason,
                    "codes of an open vocabulary in records cannot be looked up, they are shown without displays"
                ),
            }
        }
    }
    if asked.is_empty() {
        return generation;
    }
    match generation.with_open(&asked, Some(generation.table().clone())) {
        Ok(known) => known,
        Err(error) => {
            tracing::error!(error = %error, "what packs say of codes in records is not sound, they are shown without displays");
            generation
        }
    }
}

fn check_room(current: &Generation, table: &CodeTable, uri: &CodeUri, more: usize) -> Result<(), AppError> {
    let listed = current.vocabulary(&uri.namespace).map_or(0, |vocabulary| vocabulary.concept_count());
    let kept = table.numbers_in(&uri.namespace).len().saturating_sub(listed);
    if kept.saturating_add(more) < KEPT_MAX {
        return Ok(());
    }
    let message = format!(
        "records hold {kept} codes of the open vocabulary `{}` beside those that it lists, and no more are taken; use a listed code",
        uri.namespace
    );
    Err(AppError::invalid("", "open_vocabulary_full", message))
}

fn table(stored: &crate::store::StoredCodeTable) -> Result<CodeTable, AppError> {
    CodeTable::new(&stored.codes, &stored.editions).map_err(|error| AppError::Internal(error.into()))
}

fn unavailable(error: OpenUnavailable) -> AppError {
    tracing::warn!(vocabulary = %error.namespace, reason = error.reason, "a code of an open vocabulary cannot be looked up");
    AppError::VocabularyUnavailable(error.namespace)
}

fn unsound(problem: &OpenProblem, asked: &[Arc<AskedCode>]) -> AppError {
    tracing::error!(error = %problem, "what a pack says of a code of its open vocabulary is not sound");
    match asked.first() {
        Some(first) => AppError::VocabularyUnavailable(first.written.namespace.clone()),
        None => AppError::internal("nothing was asked and yet it is not sound"),
    }
}
