//! Codes of open vocabularies in requests and records: asked of their packs, and numbered when a record keeps them.
//!
//! **Invariant:** a code gets a lasting number in the write of the first record that holds it, in its normal spelling; a write that is
//! refused, and whoever only asks, leave nothing behind.
//!
//! **Invariant:** a code is published when its number is certain and before a record that holds it can be read by this process (of a
//! shared database: as soon as it is written). Numbers are worked out by one operation of a process at a time; that no other process gave
//! them is checked by the write itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::registry::Registry;
use crate::vocabulary_publisher::code_table;
use daftar_domain::code::{CodeNumber, CodeUri, CodedValue, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::{Fields, RecordType};
use daftar_domain::value::{CodePlace, Reference, Translate};
use daftar_store::{NewCodes, Operation};
use daftar_vocabulary::{AskedCode, CallingThread, CodeTable, Generation, OpenProblem, OpenUnavailable, Vocabularies};

/// How many codes of one open vocabulary records may hold beside those that it lists: its pack is asked about each of them
/// whenever it is published.
pub const KEPT_MAX: usize = 10_000;

/// How many of them records may hold that writes of one client brought, for the life of the register: the rest is for others.
pub const KEPT_OF_CLIENT_MAX: u64 = 2_500;

/// The counters of what clients brought.
const SHARES: &str = "open";

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
    /// The details that a record keeps: where packs were asked about their codes, with the numbers that those codes get by the write.
    ///
    /// # Errors
    /// [`AppError::Invalid`] when too many codes of the vocabulary are kept already, by all clients or by this one; when the store fails.
    pub async fn finalise<T: RecordType>(
        self,
        ctx: &OpContext,
        registry: &Registry,
        details: Fields<T>,
    ) -> Result<(Fields<T>, Option<NumberedCodes>), AppError> {
        if self.asked.is_empty() {
            return Ok((details, None));
        }
        let kept = self.keep(ctx, registry).await?;
        Ok((details.translate(&mut Lasting(&kept)), Some(kept)))
    }

    /// Finds the numbers that the codes get which were asked about, with the write whose record will hold them. Until that is made,
    /// or the value is dropped, no other operation of this process gives a number.
    ///
    /// # Errors
    /// [`AppError::Invalid`] when too many codes of the vocabulary are kept already, by all clients or by this one; when the store fails.
    async fn keep(self, ctx: &OpContext, registry: &Registry) -> Result<NumberedCodes, AppError> {
        // A transaction finds out when it is written whether another write has given its numbers.
        let turn = match registry.store.pending_writes() {
            Some(_) => None,
            None => Some(registry.vocabularies.changing().lock_owned().await),
        };
        let current = registry.vocabularies.current();
        let table = code_table(&registry.store.code_table().await?)?;
        let mut unnumbered: BTreeSet<CodeUri> = BTreeSet::new();
        for asked in &self.asked {
            let Ok(resolved) = &asked.answer else { continue };
            let uri = resolved.uri(&asked.written.namespace);
            if table.number(&uri).is_none() {
                // Its pack may have gone while the request was handled.
                current
                    .vocabulary(&uri.namespace)
                    .ok_or_else(|| AppError::VocabularyUnavailable(uri.namespace.clone()))?;
                unnumbered.insert(uri);
            }
        }
        let counters = shares(ctx, registry, &current, (&table, &unnumbered)).await?;
        let codes: Vec<CodeUri> = unnumbered.into_iter().collect();
        let first = CodeNumber(u32::try_from(table.code_count()).unwrap_or(u32::MAX));
        let table = Arc::new(table.with_codes(&codes).map_err(|error| AppError::Internal(error.into()))?);
        let known = current.with_open(&self.asked, Some(table.clone()));
        let known = known.map_err(|problem| unsound(&problem, &self.asked))?;
        let vocabularies = registry.vocabularies.clone();
        if codes.is_empty() {
            // Others gave them in the meantime, and this process may not know yet.
            let generation = vocabularies.publish(known);
            return Ok(NumberedCodes { generation, before: self.generation, new_codes: None, _turn: turn });
        }
        let generation = if turn.is_none() { vocabularies.publish(known) } else { Arc::new(known) };
        let built = (current, Arc::clone(&generation));
        let publishing = Publishing { vocabularies, built, asked: self.asked, table };
        let new_codes = Some(NewCodes { first, codes, counters, given: Arc::new(move || publishing.publish()) });
        Ok(NumberedCodes { generation, before: self.generation, new_codes, _turn: turn })
    }
}

/// Puts the lasting values in the places of codes that were good for a request only.
struct Lasting<'k>(&'k NumberedCodes);

impl<I> Translate<CodedValue, I> for Lasting<'_> {
    type Code = CodedValue;
    type Id = I;

    fn code(&mut self, _: CodePlace<'_>, _: &str, code: CodedValue) -> CodedValue {
        self.0.persisted(code)
    }

    fn reference(&mut self, _: &str, reference: Reference<I>) -> Reference<I> {
        reference
    }
}

/// Publishes codes once they have their numbers.
struct Publishing {
    vocabularies: Arc<Vocabularies>,
    /// A generation, and what it is with the codes: worked out here, so that the thread that writes is not held up.
    built: (Arc<Generation>, Arc<Generation>),
    asked: Vec<Arc<AskedCode>>,
    table: Arc<CodeTable>,
}

impl Publishing {
    fn publish(&self) {
        self.vocabularies.publish_for_all(|current| {
            let (before, after) = &self.built;
            if Arc::ptr_eq(current, before) {
                return Arc::clone(after);
            }
            // Whoever asked for the write may have left, and others given the numbers that follow.
            let is_known = current.table().code_count() > self.table.code_count();
            let table = if is_known { current.table() } else { &self.table };
            current.with_open(&self.asked, Some(Arc::clone(table))).map(Arc::new).unwrap_or_else(|error| {
                tracing::error!(error = %error, "codes of a record that was just written cannot be published, they are shown without displays");
                Arc::clone(current)
            })
        });
    }
}

/// What a client's share of open vocabularies comes to with the codes that it brings, by the name of its counter.
async fn shares(
    ctx: &OpContext,
    registry: &Registry,
    current: &Generation,
    (table, unnumbered): (&CodeTable, &BTreeSet<CodeUri>),
) -> Result<Vec<(String, u64)>, AppError> {
    let mut new: BTreeMap<&Namespace, usize> = BTreeMap::new();
    for uri in unnumbered {
        *new.entry(&uri.namespace).or_default() += 1;
    }
    let mut counters = Vec::new();
    for (namespace, count) in new {
        check_room(current, table, namespace, count)?;
        // The administrator, and what the server does by itself, have no share.
        let Some(client) = ctx.client() else { continue };
        let name = format!("{SHARES}/{client}/{namespace}");
        let before = registry.store.counter(&name).await?.unwrap_or_default();
        let after = before.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        if after > KEPT_OF_CLIENT_MAX {
            let message = format!(
                "records of this client have brought {before} codes of the open vocabulary `{namespace}` beside those that it lists, and {KEPT_OF_CLIENT_MAX} is the share of one client; use a listed code, or one that records hold already"
            );
            return Err(AppError::invalid("", "open_vocabulary_share", message));
        }
        counters.push((name, after));
    }
    Ok(counters)
}

/// The codes of a request with the numbers that they have, or get with the write.
pub struct NumberedCodes {
    /// The vocabularies with these numbers; active for others once the write is made.
    pub generation: Arc<Generation>,
    before: Arc<Generation>,
    new_codes: Option<NewCodes>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl NumberedCodes {
    /// The value that a record keeps for one that was good for the request only.
    #[must_use]
    fn persisted(&self, value: CodedValue) -> CodedValue {
        let lasting = self.before.table().uri(value.number).and_then(|uri| self.generation.number_of(&uri));
        CodedValue { number: lasting.unwrap_or(value.number), ..value }
    }

    /// What the write of the record has to do beside it.
    pub fn operation(&self) -> Option<Operation> {
        self.new_codes.clone().map(Operation::NumberCodes)
    }
}

/// A generation that knows all of some codes, as far as packs do.
///
/// # Errors
/// [`AppError::VocabularyUnavailable`] when a pack does not answer.
pub async fn resolve(
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
/// As [`resolve`].
pub(super) fn resolve_local(
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
pub(super) fn with_persisted(registry: &Registry, generation: Generation) -> Generation {
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

fn check_room(current: &Generation, table: &CodeTable, namespace: &Namespace, more: usize) -> Result<(), AppError> {
    let listed = current.vocabulary(namespace).map_or(0, |vocabulary| vocabulary.concept_count());
    let kept = table.numbers_in(namespace).len().saturating_sub(listed);
    if kept.saturating_add(more) <= KEPT_MAX {
        return Ok(());
    }
    let message = format!(
        "records hold {kept} codes of the open vocabulary `{namespace}` beside those that it lists, and no more than {KEPT_MAX} are taken; use a listed code, or one that records hold already"
    );
    Err(AppError::invalid("", "open_vocabulary_full", message))
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
