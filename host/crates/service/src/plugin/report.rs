//! Report on the effect of installing a plugin on the existing records.
//!
//! **Invariant:** a report changes nothing: no number is assigned, nothing is stored, nothing is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::remove::numbers_of;
use super::{PluginAdministration, PluginOffer, blocking, checked, refusal, with};
use crate::codes;
use crate::program::broken_rules;
use crate::registry::Registry;
use daftar_domain::audit::AuditOutcome;
use daftar_domain::code::{Code, CodeNumber, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{Fields, RecordId, RecordKind, RecordType};
use daftar_domain::vocabulary::{ConceptStatus, ID_TYPE_NAMESPACE};
use daftar_sandbox::{LoadedPlugin, PluginHost, Prepared};
use daftar_vocabulary::{CheckedPack, ConceptRef, Generation, Vocabulary};

/// Maximum number of codes that one report names for one vocabulary; the rest is counted.
pub const CODES_REPORTED_MAX: usize = 1_000;

/// Effect of installing a plugin.
#[derive(Debug)]
pub struct UpgradeReport {
    /// The plugin.
    pub plugin: String,
    /// The installed version.
    pub from: Option<String>,
    /// The version to be installed.
    pub to: String,
    /// The reason for its rejection.
    pub refusal: Option<String>,
    /// Fields and concept groups of the installed version that it lacks.
    pub gone: Gone,
    /// Codes of its open vocabularies in records that it does not resolve.
    pub unresolved: Vec<UnresolvedCode>,
    /// The programs whose rules would be invalid, each with the problem.
    pub broken_rules: Vec<(String, String)>,
    /// The effect on each vocabulary that it provides or would remove.
    pub vocabularies: Vec<VocabularyChange>,
    /// The records with codes that would be removed or deprecated, up to the requested number.
    pub records: Vec<TouchedRecord>,
}

/// Fields and concept groups of the installed pack that a new version lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    /// Extension fields, by path.
    pub fields: Vec<String>,
    /// Concept groups, by name.
    pub concept_groups: Vec<String>,
}

impl Gone {
    /// Computes the fields and concept groups of the installed pack that `new` lacks.
    pub(super) fn between(present: Option<&CheckedPack>, new: Option<&CheckedPack>) -> Self {
        let fields = |pack: Option<&CheckedPack>| -> BTreeSet<String> {
            pack.into_iter().flat_map(CheckedPack::extension_fields).map(|field| field.path.to_string()).collect()
        };
        let groups = |pack: Option<&CheckedPack>| -> BTreeSet<String> {
            pack.into_iter().flat_map(CheckedPack::concept_groups).map(|group| group.name.to_string()).collect()
        };
        Self {
            fields: fields(present).difference(&fields(new)).cloned().collect(),
            concept_groups: groups(present).difference(&groups(new)).cloned().collect(),
        }
    }

    /// The reason why it is not installed without confirmation; none if nothing is lost.
    pub(super) fn reason(&self, installed: &str) -> Option<String> {
        let named = |what: &str, names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("the {what} `{name}`")).collect()
        };
        let mut gone = named("extension field", &self.fields);
        gone.extend(named("concept group", &self.concept_groups));
        (!gone.is_empty()).then(|| {
            format!(
                "it lacks what version {installed} has: {}; records would keep values of such fields without showing them, and rules that use them would fail: install it with `--accept-loss` where that is meant",
                gone.join(", ")
            )
        })
    }
}

/// A code of an open vocabulary in records that a new version does not resolve: records display it without a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedCode {
    /// `<namespace>#<code>`
    pub uri: String,
    /// Number of records with it.
    pub records: u64,
    /// The pack's message, or the fault of the call.
    pub reason: String,
}

/// The reason why a version that does not resolve codes in records is not installed without confirmation; none if it
/// resolves all.
pub(super) fn reason_of(unresolved: &[UnresolvedCode]) -> Option<String> {
    let first = unresolved.first()?;
    let count = unresolved.len();
    Some(format!(
        "it does not resolve {count} codes of open vocabularies in records, such as `{}` ({} records: {}), which would be shown without displays: install it with `--accept-loss` where that is meant",
        first.uri, first.records, first.reason
    ))
}

/// Effect on a vocabulary.
#[derive(Debug, Default)]
pub struct VocabularyChange {
    /// The vocabulary.
    pub namespace: String,
    /// Its active version.
    pub from: Option<String>,
    /// Its version after the install; none if no pack would provide it.
    pub to: Option<String>,
    /// Number of new codes.
    pub added: usize,
    /// Number of removed codes: retained for the records that contain them, and rejected in new ones.
    pub gone: usize,
    /// Number of codes that would be deprecated or become headings.
    pub retired: usize,
    /// Number of codes with another label in the default language.
    pub relabelled: usize,
    /// Number of records with at least one code, or identifier of an ID type, that would be removed or deprecated.
    pub records: u64,
    /// The codes in records that would change, the most used first.
    pub touched: Vec<TouchedCode>,
    /// Codes that would be removed or deprecated and that no record contains, at most 1,000.
    pub unused: Vec<String>,
    /// Number of such codes that are not named.
    pub unreported: usize,
    /// Active local codes that the new version provides itself, or that would become inactive with their vocabulary.
    pub local_codes: Vec<String>,
}

/// A code in records that would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedCode {
    /// `<namespace>#<code>`
    pub uri: String,
    /// Its current label.
    pub display: String,
    /// The effect on it.
    pub change: CodeChange,
    /// Number of records with it.
    pub records: u64,
    /// The replacement code and its label.
    pub successor: Option<(String, String)>,
}

/// Effect on a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeChange {
    /// The new version does not have it.
    Gone,
    /// The new version no longer permits it in new records.
    Retired,
    /// The new version has another label.
    Relabelled {
        /// The new label.
        display: String,
    },
}

/// A vocabulary in its current and its new state.
struct Pair<'a> {
    older: Option<&'a Vocabulary>,
    newer: Option<&'a Vocabulary>,
}

/// The data for the assessment of changes.
struct Facts<'a> {
    deployment: &'a Deployment,
    generation: &'a Generation,
    /// Number of records per code.
    held: &'a BTreeMap<CodeNumber, u64>,
    carriers: &'a Carriers,
}

impl PluginAdministration {
    /// The codes in records that the new version of an open vocabulary does not list and does not resolve, the most
    /// used first. If calls fail for [`FAULTS_MAX`] codes of a vocabulary, its other codes are not tried.
    pub(super) async fn unresolved(&self, prepared: &Prepared) -> Result<Vec<UnresolvedCode>, AppError> {
        let contents = prepared.contents().cloned();
        let new = contents.and_then(|contents| checked(contents, prepared.manifest(), &Deployment::default()).ok());
        let Some(new) = new else { return Ok(Vec::new()) };
        let generation = self.registry.vocabularies.current();
        let mut unresolved = Vec::new();
        for vocabulary in new.vocabularies().iter().filter(|vocabulary| vocabulary.description().is_open) {
            let namespace = vocabulary.namespace();
            let numbers = numbers_of(&generation, std::iter::once(namespace));
            let held = self.registry.index.current().await.records_by_code(&numbers).await?;
            let unlisted = |number: CodeNumber| -> Option<Code> {
                let code = &generation.table().uri(number)?.code;
                let is_local = generation.code(number).is_some_and(ConceptRef::is_local);
                (!is_local && vocabulary.find(code.as_str()).is_none()).then(|| code.clone())
            };
            let used = held.into_iter().filter(|(_, records)| *records > 0);
            let used: Vec<(Code, u64)> =
                used.filter_map(|(number, records)| Some((unlisted(number)?, records))).collect();
            let (host, plugin, of) = (self.host.clone(), prepared.loaded().clone(), namespace.clone());
            let codes: Vec<Code> = used.iter().map(|(code, _)| code.clone()).collect();
            let reasons = blocking(move || failures(&host, &plugin, &of, &codes)).await?;
            unresolved.extend(used.into_iter().zip(reasons).filter_map(|((code, records), reason)| {
                Some(UnresolvedCode { uri: format!("{namespace}#{code}"), records, reason: reason? })
            }));
        }
        unresolved.sort_by(|one, other| other.records.cmp(&one.records).then_with(|| one.uri.cmp(&other.uri)));
        Ok(unresolved)
    }

    /// The programs with a rule that the new version makes invalid, each with the problem.
    async fn rules_broken_by(&self, ctx: &OpContext, prepared: &Prepared) -> Result<Vec<(String, String)>, AppError> {
        // An installation that would be rejected breaks nothing.
        let Ok(side) = self.side_with(prepared).await? else { return Ok(Vec::new()) };
        match broken_rules(ctx, &side.registry, &side.engine).await {
            Ok(broken) => Ok(broken.into_iter().map(|rule| (rule.program, rule.message)).collect()),
            // No rule can be checked, and none can be broken.
            Err(AppError::NoEngine | AppError::EngineCompiling(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reports the effect of installing a plugin, without installing it, and names up to `records_told` of the records
    /// with codes that would be removed or deprecated. The audit log records the named records.
    ///
    /// # Errors
    /// [`AppError::Plugin`] when the file is not a plugin that can be read and tested, or when the store fails.
    pub async fn report(
        &self,
        ctx: &OpContext,
        offer: PluginOffer,
        records_reported: usize,
    ) -> Result<UpgradeReport, AppError> {
        let library = self.library.clone();
        let prepared = match blocking(move || library.prepare(offer)).await? {
            Ok(prepared) => prepared,
            Err(error) => {
                let note = format!("tried out for a report, and refused: {error}");
                self.audit(ctx, AuditOutcome::Refused, "a plugin that is not installed", note).await?;
                return Err(refusal(error));
            }
        };
        // Its code has run, regardless of its signer.
        let tried = format!("{} {}", prepared.manifest().name, prepared.manifest().version);
        self.audit(ctx, AuditOutcome::Allowed, tried, "tried out for a report, not installed").await?;
        let (packs, deployment) = self.publisher.decided();
        let manifest = prepared.manifest();
        let downgrade = self.library.newer_than(manifest).map(|reason| prepared.refuse_downgrade(reason).to_string());
        let refused = match with(&packs, &deployment, &prepared) {
            Ok(Some((changed, retained))) => {
                let dropped = self.dropped(&manifest.name, &changed);
                let needed = self.why_still_needed(&manifest.name, &dropped, &deployment).await?;
                let deployment = super::remove::joined(&deployment, &retained);
                match needed {
                    Some(reason) => Some(prepared.refuse(reason).to_string()),
                    None => self.publisher.tried(&changed, &deployment).await?.err(),
                }
            }
            Ok(None) => None,
            Err(error) => Some(error.to_string()),
        };
        let generation = self.registry.vocabularies.current();
        let new = prepared.contents();
        let new = new.and_then(|contents| checked(contents.clone(), manifest, &Deployment::default()).ok());
        let present = packs.get(&manifest.name).map(|(_, pack)| &**pack);
        let gone = Gone::between(present, new.as_deref());
        let unresolved = self.unresolved(&prepared).await?;
        let broken_rules = self.rules_broken_by(ctx, &prepared).await?;
        let pairs = pairs(present, new.as_deref(), &generation);
        let carriers = Carriers::find(&self.registry, &lost_id_types(&pairs)).await?;
        let index = &self.registry.index;
        let numbers = numbers_of(&generation, pairs.iter().filter_map(namespace_of));
        let held = index.current().await.records_by_code(&numbers).await?;
        let facts = Facts { deployment: &deployment, generation: &generation, held: &held, carriers: &carriers };
        let mut lost = BTreeSet::new();
        let mut vocabularies = Vec::new();
        for (mut change, numbers) in pairs.iter().filter_map(|pair| change(pair, &facts)) {
            change.records = change.records.saturating_add(index.current().await.records_using(&numbers).await?);
            lost.extend(numbers);
            vocabularies.push(change);
        }
        let records = match records_reported {
            0 => Vec::new(),
            limit => records(ctx, &self.registry, &generation, (&lost, &carriers), limit).await?,
        };
        Ok(UpgradeReport {
            plugin: manifest.name.to_string(),
            from: self.library.current().get(&manifest.name).map(|present| present.manifest().version.to_string()),
            to: manifest.version.to_string(),
            refusal: downgrade.or(refused),
            gone,
            unresolved,
            broken_rules,
            vocabularies,
            records,
        })
    }
}

/// Number of codes in one call of a pack.
const BATCH_CODES: usize = 256;
/// Number of codes with a failed call after which no further codes of a vocabulary are tried.
const FAULTS_MAX: usize = 5;

/// The reason why each code cannot be resolved, in order; none for a code that is resolved. Waits for the sandbox.
fn failures(
    host: &PluginHost,
    plugin: &Arc<LoadedPlugin>,
    namespace: &Namespace,
    codes: &[Code],
) -> Vec<Option<String>> {
    let mut reasons = Vec::with_capacity(codes.len());
    let mut faults = 0;
    for batch in codes.chunks(BATCH_CODES) {
        if let Ok(resolved) = host.resolve_codes(plugin, namespace, batch) {
            reasons.extend(resolved.into_iter().map(Result::err));
            continue;
        }
        // The call failed for one of them: each code is retried in a separate call.
        for code in batch {
            if faults >= FAULTS_MAX {
                reasons.push(Some("not tried: calls for other codes failed".to_owned()));
                continue;
            }
            let reason = match host.resolve_codes(plugin, namespace, std::slice::from_ref(code)) {
                Ok(resolved) => resolved.into_iter().find_map(Result::err),
                Err(error) => {
                    faults += 1;
                    Some(error.to_string())
                }
            };
            reasons.push(reason);
        }
    }
    reasons
}

/// The vocabularies that a pack provides with their active versions, and those that it no longer provides.
fn pairs<'a>(
    present: Option<&'a CheckedPack>,
    new: Option<&'a CheckedPack>,
    generation: &'a Generation,
) -> Vec<Pair<'a>> {
    let newer = || new.into_iter().flat_map(CheckedPack::vocabularies).map(Arc::as_ref);
    let older = present.into_iter().flat_map(CheckedPack::vocabularies).map(Arc::as_ref);
    let gone =
        older.filter(|older: &&Vocabulary| newer().all(|newer: &Vocabulary| newer.namespace() != older.namespace()));
    // In its active state, with its local codes: they would be removed with it.
    let gone = gone.map(|older| generation.vocabulary(older.namespace()).map_or(older, Arc::as_ref));
    let replaced = newer()
        .map(|newer| Pair { older: generation.vocabulary(newer.namespace()).map(Arc::as_ref), newer: Some(newer) });
    replaced.chain(gone.map(|older| Pair { older: Some(older), newer: None })).collect()
}

/// The ID types that would be removed or deprecated: identifiers use them, no coded field contains them.
fn lost_id_types(pairs: &[Pair<'_>]) -> BTreeSet<String> {
    let of_id_types = pairs.iter().filter_map(|pair| Some((pair.older?, pair.newer)));
    let of_id_types = of_id_types.filter(|(older, _)| older.namespace().as_str() == ID_TYPE_NAMESPACE);
    let concepts = of_id_types.flat_map(|(older, newer)| {
        older.concepts().filter(move |concept| {
            if !is_judged(*concept, newer) {
                return false;
            }
            let counterpart = newer.and_then(|newer| newer.find(concept.code()));
            matches!(becomes(*concept, counterpart), Some(CodeChange::Gone | CodeChange::Retired))
        })
    });
    concepts.map(ConceptRef::uri_text).collect()
}

fn namespace_of<'a>(pair: &Pair<'a>) -> Option<&'a Namespace> {
    Some(pair.older.or(pair.newer)?.namespace())
}

/// Changes of a vocabulary, and the codes that would be removed or deprecated; the records with these are not counted
/// yet.
fn change(pair: &Pair<'_>, facts: &Facts<'_>) -> Option<(VocabularyChange, Vec<CodeNumber>)> {
    let Pair { older, newer } = *pair;
    let Facts { deployment, generation, held, carriers } = *facts;
    let namespace = namespace_of(pair)?;
    let mut report = VocabularyChange {
        namespace: namespace.to_string(),
        from: older.map(|older| older.description().version.clone()),
        to: newer.map(|newer| newer.description().version.clone()),
        ..VocabularyChange::default()
    };
    let new_codes = newer.iter().flat_map(|newer| newer.concepts());
    report.added = new_codes.filter(|concept| older.is_none_or(|older| older.find(concept.code()).is_none())).count();
    let brings = |code: &str| newer.is_some_and(|newer| newer.find(code).is_some());
    let local = deployment.local_codes().filter(|local| local.uri.namespace == *namespace && local.is_active());
    report.local_codes = local
        .filter(|local| newer.is_none() || brings(local.uri.code.as_str()))
        .map(|local| local.uri.to_string())
        .collect();
    let mut lost = Vec::new();
    for concept in older.iter().flat_map(|older| older.concepts()).filter(|concept| is_judged(*concept, newer)) {
        let counterpart = newer.and_then(|newer| newer.find(concept.code()));
        let Some(becomes) = becomes(concept, counterpart) else { continue };
        match &becomes {
            CodeChange::Gone => report.gone += 1,
            CodeChange::Retired => report.retired += 1,
            CodeChange::Relabelled { .. } => report.relabelled += 1,
        }
        let number = concept.uri().ok().and_then(|uri| generation.number_of(&uri));
        let Some(number) = number else { continue };
        let holders = held.get(&number).copied().unwrap_or_default();
        let records = holders.saturating_add(carriers.count(&concept.uri_text()));
        let is_lost = !matches!(becomes, CodeChange::Relabelled { .. });
        if records == 0 {
            report.unused.extend(is_lost.then(|| concept.uri_text()));
            continue;
        }
        if is_lost {
            lost.push(number);
        }
        let successor = counterpart.and_then(ConceptRef::active_successor);
        report.touched.push(TouchedCode {
            uri: concept.uri_text(),
            display: concept.default_label().to_owned(),
            change: becomes,
            records,
            successor: successor.map(|successor| (successor.uri_text(), successor.default_label().to_owned())),
        });
    }
    report.records = if namespace.as_str() == ID_TYPE_NAMESPACE { carriers.total() } else { 0 };
    report.touched.sort_by(|one, other| other.records.cmp(&one.records).then_with(|| one.uri.cmp(&other.uri)));
    report.unreported = report.touched.len().saturating_sub(CODES_REPORTED_MAX);
    report.touched.truncate(CODES_REPORTED_MAX);
    report.unused.truncate(CODES_REPORTED_MAX);
    Some((report, lost))
}

/// True if a change of its vocabulary changes a code: a local code stays in a new version, and is removed with its
/// vocabulary.
fn is_judged(concept: ConceptRef<'_>, newer: Option<&Vocabulary>) -> bool {
    newer.is_none() || !concept.is_local()
}

/// The effect on a code; none if it does not change.
fn becomes(concept: ConceptRef<'_>, counterpart: Option<ConceptRef<'_>>) -> Option<CodeChange> {
    let Some(counterpart) = counterpart else {
        // Codes retained of an earlier version are removed already.
        return concept.property("last_version").is_none().then_some(CodeChange::Gone);
    };
    if concept.is_usable() && !counterpart.is_usable() {
        return Some(CodeChange::Retired);
    }
    let is_same = concept.default_label() == counterpart.default_label();
    let is_active = counterpart.status() == ConceptStatus::Active;
    (!is_same && is_active).then(|| CodeChange::Relabelled { display: counterpart.default_label().to_owned() })
}

/// Maximum number of records that one report names.
pub const RECORDS_REPORTED_MAX: usize = 10_000;
/// Number of records read per batch.
const PAGE_RECORDS: usize = 500;
/// Maximum number of targets in one audit entry.
const AUDITED_TARGETS: usize = 1_000;

/// A record with codes that would be removed or deprecated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedRecord {
    /// `Individual/<system>|<value>` or `Group/<system>|<value>`. Personal data.
    pub reference: String,
    /// The fields of the record with such a code, and the codes.
    pub codes: Vec<(String, String)>,
}

/// The records that carry identifiers of some systems. Codes in coded fields are counted in memory; an ID type is in no
/// coded field but is the system of identifiers, for which all records are read.
#[derive(Debug, Default)]
pub(super) struct Carriers {
    /// Number of records with an identifier, per system.
    counts: BTreeMap<String, u64>,
    individuals: BTreeSet<RecordId>,
    groups: BTreeSet<RecordId>,
    /// Number of records with an identifier of any of the systems.
    total: u64,
}

impl Carriers {
    /// Reads all records for identifiers of the systems; none if there are no systems.
    pub async fn find(registry: &Registry, systems: &BTreeSet<String>) -> Result<Self, AppError> {
        let mut carriers = Self::default();
        if systems.is_empty() {
            return Ok(carriers);
        }
        let store = &registry.store;
        for kind in [RecordKind::Individual, RecordKind::Group, RecordKind::Program, RecordKind::ProgramMembership] {
            let mut after = RecordId(0);
            loop {
                let page = store.scan_records(kind, after, PAGE_RECORDS).await?;
                let Some(last) = page.last() else { break };
                after = last.place().1;
                for record in &page {
                    carriers.note(kind, record.place().1, &record.identifiers(), systems);
                }
            }
        }
        Ok(carriers)
    }

    fn note(&mut self, kind: RecordKind, id: RecordId, identifiers: &[Identifier], systems: &BTreeSet<String>) {
        let held: BTreeSet<&str> = identifiers
            .iter()
            .map(|identifier| identifier.key.system.as_str())
            .filter(|system| systems.contains(*system))
            .collect();
        if held.is_empty() {
            return;
        }
        self.total += 1;
        for system in held {
            *self.counts.entry(system.to_owned()).or_default() += 1;
        }
        // Only named codes: the remaining ones are counted.
        let named = match kind {
            RecordKind::Individual => &mut self.individuals,
            RecordKind::Group => &mut self.groups,
            RecordKind::Program | RecordKind::ProgramMembership | RecordKind::Consent => return,
        };
        if named.len() < RECORDS_REPORTED_MAX {
            named.insert(id);
        }
    }

    /// Number of records with an identifier of that system.
    fn count(&self, system: &str) -> u64 {
        self.counts.get(system).copied().unwrap_or_default()
    }

    /// Number of records with an identifier of any of the systems.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// The records with one of the codes, at most `limit`, in the order of registration, individuals first. The audit log
/// records the named records.
pub(super) async fn records(
    ctx: &OpContext,
    registry: &Registry,
    generation: &Generation,
    (lost, carriers): (&BTreeSet<CodeNumber>, &Carriers),
    limit: usize,
) -> Result<Vec<TouchedRecord>, AppError> {
    let limit = limit.min(RECORDS_REPORTED_MAX);
    let numbers: Vec<CodeNumber> = lost.iter().copied().collect();
    let (individuals, groups) = registry.index.current().await.holders_of(&numbers, limit).await?;
    let joined = |holders: Vec<RecordId>, carriers: &BTreeSet<RecordId>| -> Vec<RecordId> {
        let all: BTreeSet<RecordId> = holders.into_iter().chain(carriers.iter().copied()).collect();
        all.into_iter().collect()
    };
    let individuals = joined(individuals, &carriers.individuals);
    let groups = joined(groups, &carriers.groups);
    let of = Touching { generation, lost, carriers };
    let mut found = Vec::new();
    for page in individuals.chunks(PAGE_RECORDS) {
        let records = registry.store.find_all::<IndividualDetails>(page).await?;
        found.extend(records.iter().filter_map(|record| of.record(&record.details)));
        if found.len() >= limit {
            break;
        }
    }
    for id in groups {
        if found.len() >= limit {
            break;
        }
        let record = registry.store.find::<GroupDetails>(id).await?;
        found.extend(record.and_then(|record| of.record(&record.details)));
    }
    found.truncate(limit);
    for page in found.chunks(AUDITED_TARGETS) {
        let targets = page.iter().map(|record| record.reference.clone()).collect();
        registry.audit.record_search(ctx, targets, "records that an upgrade of a plugin would touch").await?;
    }
    Ok(found)
}

/// Codes that would be removed or deprecated.
struct Touching<'a> {
    generation: &'a Generation,
    lost: &'a BTreeSet<CodeNumber>,
    carriers: &'a Carriers,
}

impl Touching<'_> {
    fn record<T: RecordType>(&self, details: &Fields<T>) -> Option<TouchedRecord> {
        let identifiers = &details.identifiers;
        let mut touched: Vec<(String, String)> = codes::with_fields(details)
            .filter(|(_, value)| self.lost.contains(&value.number))
            .filter_map(|(field, value)| Some((field, self.generation.table().uri(value.number)?.to_string())))
            .collect();
        let systems = identifiers.iter().map(|identifier| identifier.key.system.as_str());
        let systems = systems.filter(|system| self.carriers.counts.contains_key(*system));
        touched.extend(systems.map(|system| ("identifier".to_owned(), system.to_owned())));
        touched.sort_unstable();
        touched.dedup();
        let reference = crate::records::reference(T::KIND, &identifiers.first()?.key);
        (!touched.is_empty()).then_some(TouchedRecord { reference, codes: touched })
    }
}
