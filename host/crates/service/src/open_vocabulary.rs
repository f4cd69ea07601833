//! Codes of open vocabularies in requests and records: resolved by their packs, and numbered when a record stores them.
//!
//! **Invariant:** a code gets a persistent number in the write of the first record that contains it, in its normalized
//! spelling. A rejected write and a read-only request store nothing.
//!
//! **Invariant:** a code is published when its number is final, and before a record that contains it can be read by
//! this process (with a shared database: as soon as it is written). One operation of a process at a time assigns
//! numbers, and no snapshot is published until its write has ended; the write itself checks that no other process
//! assigned the same numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::client::spawn_uncancellable;
use crate::records;
use crate::registry::Registry;
use crate::vocabulary_publisher::code_table;
use daftar_domain::change::Details;
use daftar_domain::code::{CodeNumber, CodeUri, CodedValue, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::{Fields, Record, RecordType};
use daftar_domain::value::{CodePlace, Reference, Translate};
use daftar_store::{NewCodes, Operation, StoredCodeTable, Write};
use daftar_vocabulary::{
    CallingThread, CodeTable, Generation, OpenProblem, OpenUnavailable, QueriedCode, Vocabularies,
};

/// Maximum number of unlisted codes of one open vocabulary in records: its pack is queried for each of them
/// whenever it is published.
pub const STORED_MAX: usize = 10_000;

/// Maximum number of these codes added by writes of one client, over the lifetime of the register: the remaining
/// capacity is reserved for other clients.
pub const STORED_OF_CLIENT_MAX: u64 = 2_500;

/// The counters of codes added by clients.
const SHARES: &str = "open";

/// Number of stored codes in one query to a pack.
const BATCH_CODES: usize = 256;

/// A vocabulary snapshot with the codes of one request.
#[derive(Debug, Clone)]
pub struct Consulted {
    /// The vocabularies with the responses of packs; valid for this request only.
    pub generation: Arc<Generation>,
    requested: Vec<Arc<QueriedCode>>,
}

impl Consulted {
    /// The details that a record stores: with the persistent numbers that the write assigns to codes resolved by packs.
    ///
    /// # Errors
    /// [`AppError::Invalid`] when the limit of stored codes of the vocabulary is reached, of all clients or of this
    /// one; when the store fails.
    pub async fn finalise<T: RecordType>(
        self,
        ctx: &OpContext,
        registry: &Registry,
        details: Fields<T>,
    ) -> Result<(Fields<T>, Option<NumberedCodes>), AppError> {
        if self.requested.is_empty() {
            return Ok((details, None));
        }
        let stored = self.keep(ctx, registry).await?;
        Ok((details.translate(&mut Lasting(&stored)), Some(stored)))
    }

    /// Assigns numbers to the codes that packs resolved, in the write whose record will contain them. Until that write
    /// is made, or the value is dropped, no other operation of this process assigns a number.
    ///
    /// # Errors
    /// [`AppError::Invalid`] when the limit of stored codes of the vocabulary is reached, of all clients or of this
    /// one; when the store fails.
    async fn keep(self, ctx: &OpContext, registry: &Registry) -> Result<NumberedCodes, AppError> {
        // A transaction detects at its commit whether another write has assigned its numbers.
        let lock = match registry.store.pending_writes() {
            Some(_) => None,
            None => Some(registry.vocabularies.changing().lock_owned().await),
        };
        let current = registry.vocabularies.current();
        let table = code_table(&registry.store.code_table().await?)?;
        let mut unnumbered: BTreeSet<CodeUri> = BTreeSet::new();
        for requested in &self.requested {
            let Ok(resolved) = &requested.answer else { continue };
            let uri = resolved.uri(&requested.written.namespace);
            if table.number(&uri).is_none() {
                // Its pack may have been removed while the request was handled.
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
        let known = current.with_open(&self.requested, Some(table.clone()));
        let known =
            known.map_err(|problem| invalid_response(&registry.vocabularies, &current, &problem, &self.requested))?;
        let vocabularies = registry.vocabularies.clone();
        if codes.is_empty() {
            // Another process may have assigned them without this process having been notified.
            let generation = vocabularies.publish(known);
            return Ok(NumberedCodes { generation, before: self.generation, new_codes: None, lock });
        }
        let generation = if lock.is_none() { vocabularies.publish(known) } else { Arc::new(known) };
        let built = (current, Arc::clone(&generation));
        let publishing = Publishing { vocabularies, built, requested: self.requested, table };
        let new_codes = Some(NewCodes { first, codes, counters, given: Arc::new(move || publishing.publish()) });
        Ok(NumberedCodes { generation, before: self.generation, new_codes, lock })
    }
}

/// Replaces the values of codes that were valid for a request only by the persistent ones.
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
    /// A snapshot, and the snapshot with the new codes: built here, so that the writing thread is not delayed.
    built: (Arc<Generation>, Arc<Generation>),
    requested: Vec<Arc<QueriedCode>>,
    table: Arc<CodeTable>,
}

impl Publishing {
    fn publish(&self) {
        self.vocabularies.publish_for_all(|current| {
            let (before, after) = &self.built;
            if Arc::ptr_eq(current, before) {
                return Arc::clone(after);
            }
            // The client of the write may have disconnected, and other writes may have assigned the following numbers.
            let is_known = current.table().code_count() > self.table.code_count();
            let table = if is_known { current.table() } else { &self.table };
            current.with_open(&self.requested, Some(Arc::clone(table))).map(Arc::new).unwrap_or_else(|error| {
                tracing::error!(error = %error, "codes of a record that was just written cannot be published, they are shown without displays");
                Arc::clone(current)
            })
        });
    }
}

/// The share of a client in open vocabularies including the codes that it adds, by the name of its counter.
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
        // The administrator and the server itself have no share.
        let Some(client) = ctx.client() else { continue };
        let name = format!("{SHARES}/{client}/{namespace}");
        let before = registry.store.counter(&name).await?.unwrap_or_default();
        let after = before.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        if after > STORED_OF_CLIENT_MAX {
            let message = format!(
                "records of this client have brought {before} codes of the open vocabulary `{namespace}` beside those that it lists, and {STORED_OF_CLIENT_MAX} is the share of one client; use a listed code, or one that records hold already"
            );
            return Err(AppError::invalid("", "open_vocabulary_share", message));
        }
        counters.push((name, after));
    }
    Ok(counters)
}

/// The codes of a request with their numbers, existing ones or ones that the write assigns.
pub struct NumberedCodes {
    /// The vocabularies with these numbers; active for other requests after the write.
    pub generation: Arc<Generation>,
    before: Arc<Generation>,
    new_codes: Option<NewCodes>,
    /// The lock on numbers; none in a transaction.
    lock: Option<OwnedMutexGuard<()>>,
}

impl NumberedCodes {
    /// The value that a record stores in place of one that was valid for the request only.
    #[must_use]
    fn persisted(&self, value: CodedValue) -> CodedValue {
        let lasting = self.before.table().uri(value.number).and_then(|uri| self.generation.number_of(&uri));
        CodedValue { number: lasting.unwrap_or(value.number), ..value }
    }

    /// The additional steps of the write of the record.
    pub fn operation(&self) -> Option<Operation> {
        self.new_codes.clone().map(Operation::NumberCodes)
    }
}

/// Commits a write with the numbers that it assigns, and returns the record that its first operation created. If the
/// client disconnects, the lock on numbers stays locked until the write has ended: a queued write is executed anyway.
///
/// # Errors
/// As [`records::commit`].
pub(crate) async fn commit<D: Details + Send + Sync + 'static>(
    registry: &Registry,
    write: Write,
    stored: Option<NumberedCodes>,
) -> Result<Arc<Record<D>>, AppError> {
    let Some(stored) = stored.filter(|stored| stored.lock.is_some()) else {
        return records::commit(registry, write).await;
    };
    let registry = registry.clone();
    let committing = async move {
        let committed = records::commit(&registry, write).await;
        drop(stored);
        committed
    };
    spawn_uncancellable(committing).await
}

/// A snapshot that includes the given codes, as far as packs resolve them.
///
/// # Errors
/// [`AppError::VocabularyUnavailable`] when a pack cannot be called, [`AppError::VocabularyFailed`] when it fails.
pub async fn resolve(
    registry: &Registry,
    generation: Arc<Generation>,
    codes: impl FnOnce() -> Vec<CodeUri>,
) -> Result<Consulted, AppError> {
    // Nearly always no vocabulary is open, and then nothing is collected.
    if !generation.has_open_vocabularies() {
        return Ok(Consulted { generation, requested: Vec::new() });
    }
    let mut codes = codes();
    codes.retain(|uri| generation.needs_lookup(uri));
    if codes.is_empty() {
        return Ok(Consulted { generation, requested: Vec::new() });
    }
    let vocabularies = registry.vocabularies.clone();
    let consulted = tokio::task::spawn_blocking(move || {
        let requested =
            vocabularies.open().look_up(&generation, &codes, CallingThread::MayWait).map_err(unavailable)?;
        let consulted = generation
            .with_open(&requested, None)
            .map_err(|problem| invalid_response(&vocabularies, &generation, &problem, &requested))?;
        let generation = Arc::new(consulted);
        Ok(Consulted { generation, requested })
    });
    consulted.await.map_err(AppError::of_task)?
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
    let requested =
        registry.vocabularies.open().look_up(&generation, codes, CallingThread::Sandbox).map_err(unavailable)?;
    if requested.is_empty() {
        return Ok(generation);
    }
    let known = generation.with_open(&requested, None).map(Arc::new);
    known.map_err(|problem| invalid_response(&registry.vocabularies, &generation, &problem, &requested))
}

/// The table of numbers in the store if other servers have numbered codes that the active snapshot lacks; none if it
/// has all, or if the register has no other servers. A caller that reads it after the records has the codes of all of
/// them.
///
/// # Errors
/// If the store fails.
pub(super) async fn numbered_elsewhere(registry: &Registry) -> Result<Option<StoredCodeTable>, AppError> {
    if registry.parted.is_none() && registry.shared_index.is_none() {
        return Ok(None);
    }
    if registry.store.code_count().await? <= registry.vocabularies.current().code_count() as u64 {
        return Ok(None);
    }
    Ok(Some(registry.store.code_table().await?))
}

/// A vocabulary snapshot with the numbers of the store, valid for one request only. Codes that other servers numbered
/// have their concepts if packs of open vocabularies resolve them; all others are known by their names, and questions
/// of rules about them are unknown. Called on a thread of the sandbox.
///
/// # Errors
/// The table is corrupt.
pub(super) fn with_stored_numbers(
    registry: &Registry,
    generation: Arc<Generation>,
    stored: &StoredCodeTable,
) -> Result<Arc<Generation>, AppError> {
    if stored.codes.len() <= generation.code_count() {
        return Ok(generation);
    }
    let table = Arc::new(code_table(stored)?);
    let longer = generation.with_open(&[], Some(table)).map_err(|problem| AppError::Internal(problem.into()))?;
    Ok(Arc::new(with_persisted(registry, longer, CallingThread::Sandbox)))
}

/// The same for records that were read before the table and contain these codes, so that no decision depends on a code
/// that this server does not know.
///
/// # Errors
/// [`AppError::Busy`] if a code has no concept until this server applies the packs and settings of the server that
/// numbered it; [`AppError::Internal`] if a code was never numbered.
pub(super) fn with_codes_of_records(
    registry: &Registry,
    generation: Arc<Generation>,
    stored: &StoredCodeTable,
    codes: impl IntoIterator<Item = CodeNumber>,
) -> Result<Arc<Generation>, AppError> {
    let newer = with_stored_numbers(registry, generation, stored)?;
    for number in codes {
        if newer.table().name(number).is_none() {
            return Err(AppError::internal(format!(
                "a record has the code number {}, which was never assigned",
                number.0
            )));
        }
        if newer.code(number).is_none() {
            return Err(AppError::Busy);
        }
    }
    Ok(newer)
}

/// The vocabulary snapshot with all codes of open vocabularies in records, as their packs resolve them now. A code
/// that its pack no longer contains, or fails to resolve, is displayed without a label, like a code of a removed pack.
/// Blocks on packs: not for async code.
pub(super) fn with_persisted(registry: &Registry, generation: Generation, thread: CallingThread) -> Generation {
    let open = generation.vocabularies().filter(|vocabulary| vocabulary.description().is_open);
    let namespaces: Vec<_> = open.map(|vocabulary| vocabulary.namespace().clone()).collect();
    let mut requested = Vec::new();
    for namespace in &namespaces {
        for batch in generation.unrequested(namespace).chunks(BATCH_CODES).take(STORED_MAX.div_ceil(BATCH_CODES)) {
            match registry.vocabularies.open().look_up(&generation, batch, thread) {
                Ok(answers) => requested.extend(answers),
                Err(error) => tracing::error!(
                    vocabulary = %namespace, reason = error.failure.reason,
                    "codes of an open vocabulary in records cannot be looked up, they are shown without displays"
                ),
            }
        }
    }
    if requested.is_empty() {
        return generation;
    }
    match generation.with_open(&requested, Some(generation.table().clone())) {
        Ok(known) => known,
        Err(error) => {
            tracing::error!(error = %error, "packs returned invalid data for codes in records, they are shown without displays");
            generation
        }
    }
}

fn check_room(current: &Generation, table: &CodeTable, namespace: &Namespace, more: usize) -> Result<(), AppError> {
    let listed = current.vocabulary(namespace).map_or(0, |vocabulary| vocabulary.concept_count());
    let stored = table.numbers_in(namespace).len().saturating_sub(listed);
    if stored.saturating_add(more) <= STORED_MAX {
        return Ok(());
    }
    let message = format!(
        "records hold {stored} codes of the open vocabulary `{namespace}` beside those that it lists, and no more than {STORED_MAX} are taken; use a listed code, or one that records hold already"
    );
    Err(AppError::invalid("", "open_vocabulary_full", message))
}

fn unavailable(error: OpenUnavailable) -> AppError {
    let OpenUnavailable { namespace, failure } = error;
    tracing::warn!(vocabulary = %namespace, reason = failure.reason, "a code of an open vocabulary cannot be looked up");
    if failure.is_lasting { AppError::VocabularyFailed(namespace) } else { AppError::VocabularyUnavailable(namespace) }
}

/// The error of an invalid result, which is logged and counted as a fault of the pack.
fn invalid_response(
    registry: &Vocabularies,
    generation: &Generation,
    problem: &OpenProblem,
    requested: &[Arc<QueriedCode>],
) -> AppError {
    let Some(first) = requested.first() else {
        return AppError::internal("the generation is invalid although no code was resolved");
    };
    let namespace = &first.written.namespace;
    let plugin = generation.pack_of(namespace).map(|pack| pack.plugin.as_str()).unwrap_or_default();
    tracing::error!(plugin, vocabulary = %namespace, error = %problem, "a pack returned invalid data for a code of its open vocabulary");
    registry.open().record_invalid(generation, namespace);
    AppError::VocabularyFailed(namespace.clone())
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use jiff::Timestamp;

    use super::*;
    use daftar_domain::change::Change;
    use daftar_domain::code::Code;
    use daftar_domain::individual::IndividualDetails;
    use daftar_domain::record::{RecordId, RecordKind};
    use daftar_store::ChangeSink;
    use daftar_store_sled::testing::shared_store;
    use daftar_vocabulary::testing::{VocabularyBuilder, generation_of};
    use daftar_vocabulary::{OpenFailure, OpenPacks, PackOrigin, ResolvedConcept};

    const OPEN: &str = "urn:test:open";
    const LISTED: &str = "urn:test:listed";

    /// A pack that accepts every code.
    struct AnyCode;

    impl OpenPacks for AnyCode {
        fn resolve(
            &self,
            _: &PackOrigin,
            _: &Namespace,
            codes: &[Code],
            _: CallingThread,
        ) -> Result<Vec<ResolvedConcept>, OpenFailure> {
            let concepts = codes.iter().map(|code| (code.as_str(), "Label"));
            Ok(VocabularyBuilder::new(OPEN).concepts(concepts).contents().1.into_iter().map(Ok).collect())
        }

        fn record_invalid(&self, _: &PackOrigin) {}
    }

    struct NoSink;

    impl ChangeSink for NoSink {
        fn apply(&self, _: &[Change]) {}
    }

    /// A register with an open and another vocabulary, each of which lists one code.
    fn registry() -> Registry {
        let [mut open, listed] =
            [OPEN, LISTED].map(|namespace| VocabularyBuilder::new(namespace).concepts([("a", "A")]).pack());
        open.vocabularies[0].0.is_open = true;
        let vocabularies = Arc::new(Vocabularies::asking(generation_of([open, listed]), Arc::new(AnyCode)));
        Registry { vocabularies, ..Registry::of_store(&shared_store()) }
    }

    fn uri(namespace: &str, code: &str) -> CodeUri {
        CodeUri::from_parts(namespace, code).unwrap()
    }

    #[tokio::test]
    async fn codes_of_records_that_another_server_numbered_are_known_or_the_client_has_to_retry() {
        let registry = registry();
        let active = registry.vocabularies.current();
        let known = |new: Option<CodeUri>| {
            let listed = [OPEN, LISTED].map(|namespace| uri(namespace, "a"));
            let editions = [OPEN, LISTED].map(|namespace| (Namespace::parse(namespace).unwrap(), "1".to_owned()));
            let stored = StoredCodeTable { codes: listed.into_iter().chain(new).collect(), editions: editions.into() };
            with_codes_of_records(&registry, Arc::clone(&active), &stored, [CodeNumber(2)])
        };
        let resolved = known(Some(uri(OPEN, "x"))).unwrap();
        assert_eq!(resolved.code(CodeNumber(2)).map(|concept| concept.code()), Some("x"));
        let requested = resolve_local(&registry, resolved, &[uri(OPEN, "y")]).unwrap();
        assert_eq!(
            requested.number_of(&uri(OPEN, "y")),
            Some(CodeNumber(3)),
            "its number is not that of a stored code"
        );
        let behind = known(Some(uri(LISTED, "b"))).unwrap_err();
        assert!(matches!(behind, AppError::Busy), "{behind:?}");
        let corrupt = known(None).unwrap_err();
        assert!(matches!(corrupt, AppError::Internal(_)), "{corrupt:?}");
        assert_eq!(registry.vocabularies.current().code_count(), 2, "nothing is published");
    }

    #[tokio::test]
    async fn a_write_of_a_disconnected_client_locks_numbers_until_it_has_ended() {
        let registry = registry();
        registry.store.attach_sink(Arc::new(NoSink)).unwrap();
        let changing = registry.vocabularies.changing();
        let generation = registry.vocabularies.current();
        let lock = Some(Arc::clone(&changing).lock_owned().await);
        let stored = NumberedCodes { before: Arc::clone(&generation), generation, new_codes: None, lock };
        let details: IndividualDetails = IndividualDetails::default();
        let operations = vec![Operation::create(details)];
        let at = Timestamp::UNIX_EPOCH;
        let write = Write { at, source: None, operations, audit: Vec::new(), read_set: Vec::new() };
        {
            let mut committing = Box::pin(commit::<IndividualDetails>(&registry, write, Some(stored)));
            assert!(committing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(changing.try_lock().is_err(), "the write has not ended");
        drop(changing.lock().await);
        let written = registry.store.scan_records(RecordKind::Individual, RecordId(0), 10).await.unwrap();
        assert_eq!(written.len(), 1);
    }
}
