//! Builder of generations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::group::{DefinedBy, PublishedGroup, WELL_KNOWN_CONCEPT_GROUPS};
use super::identifier::IdentifierRules;
use super::index::Index;
use super::{Generation, group};
use crate::check::CheckedPack;
use crate::code_problem::{Suggestion, joined, quoted};
use crate::digest::{ContentDigest, Digester};
use crate::nearest::nearest;
use crate::table::CodeTable;
use crate::vocabulary::{OverlayFault, Vocabulary};
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::deployment::Deployment;
use daftar_domain::extension::{ExtensionFieldFault, ExtensionFields};
use daftar_domain::identifier::SystemUri;
use daftar_domain::local_code::{LocalCode, PREGNANCY_STATUS_NAMESPACE};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::vocabulary::{Completeness, ConceptGroup, VocabularyDescription};

/// The pack index of a vocabulary without a pack.
const NO_PACK: usize = usize::MAX;

/// Origin of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackOrigin {
    /// The plugin's name.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
    /// Digest of the plugin's file, as text.
    pub digest: String,
}

/// Collects packs and definitions, and builds a generation.
///
/// Order of calls: [`Self::add`] for each pack; [`Self::define`] for the deployment's concept groups or
/// [`Self::deploy`] for its complete configuration; assign numbers to the codes and versions that [`Self::unnumbered`]
/// returns; [`Self::build`]. To publish without an invalid pack, the caller drops the packs that the problems name and
/// starts again with the remaining ones.
#[derive(Debug, Default)]
pub struct GenerationBuilder {
    packs: Vec<PackOrigin>,
    vocabularies: Vec<(Arc<Vocabulary>, usize)>,
    /// The index of the pack that contains a namespace.
    taken: HashMap<Namespace, usize>,
    /// The index of the pack that defines the group, and the definition.
    groups: BTreeMap<String, (usize, ConceptGroup)>,
    deployment_groups: BTreeMap<String, ConceptGroup>,
    /// By namespace.
    local_codes: BTreeMap<Namespace, Vec<LocalCode>>,
    identifier_systems: BTreeSet<SystemUri>,
    extension_fields: ExtensionFields,
    /// The version before the active one, by namespace.
    earlier: BTreeMap<Namespace, Arc<Vocabulary>>,
    /// The pack of each extension field.
    field_owners: HashMap<ExtensionPath, usize>,
}

impl GenerationBuilder {
    /// Creates a builder without packs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a complete pack.
    ///
    /// # Errors
    /// Returns every conflict with the packs added before. In that case nothing of the pack is added.
    pub fn add(&mut self, origin: PackOrigin, pack: &CheckedPack) -> Result<(), Vec<PublishProblem>> {
        let name_of = |place: usize| self.plugin_of(place).unwrap_or_default();
        let mut problems = Vec::new();
        let mut push = |fault| problems.push(PublishProblem { plugin: Some(origin.plugin.clone()), fault });
        for vocabulary in pack.vocabularies() {
            let namespace = vocabulary.namespace();
            if is_host_vocabulary(namespace) {
                push(PublishFault::HostVocabulary { namespace: namespace.clone() });
            }
            if let Some(by) = self.taken.get(namespace) {
                push(PublishFault::NamespaceTaken { namespace: namespace.clone(), by: name_of(*by) });
            }
        }
        for group in pack.concept_groups() {
            if let Some((by, known)) = self.groups.get(&group.name)
                && !group::is_same_definition(known, group)
            {
                push(PublishFault::ConceptGroupTaken { name: group.name.clone(), by: name_of(*by) });
            }
        }
        let mut extension_fields = self.extension_fields.clone();
        for field in pack.extension_fields() {
            if let Err(fault) = extension_fields.add(field.clone()) {
                let by = match &fault {
                    ExtensionFieldFault::Clash { known, .. } => self.field_owners.get(known).map(|by| name_of(*by)),
                    _ => None,
                };
                push(PublishFault::ExtensionField { fault, by });
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let place = self.packs.len();
        self.extension_fields = extension_fields;
        self.field_owners.extend(pack.extension_fields().iter().map(|field| (field.path.clone(), place)));
        self.packs.push(origin);
        self.earlier.extend(pack.earlier().iter().map(|one| (one.namespace().clone(), Arc::clone(one))));
        for vocabulary in pack.vocabularies() {
            self.taken.insert(vocabulary.namespace().clone(), place);
            self.vocabularies.push((Arc::clone(vocabulary), place));
        }
        for group in pack.concept_groups() {
            self.groups.entry(group.name.clone()).or_insert_with(|| (place, group.clone()));
        }
        Ok(())
    }

    /// Sets a concept group of the deployment, which overrides the definition of any pack. The caller has checked it
    /// with [`crate::check_concept_group`].
    pub fn define(&mut self, group: ConceptGroup) {
        self.deployment_groups.insert(group.name.clone(), group);
    }

    /// Applies the configuration of the deployment, and adds the registry's own vocabularies.
    pub fn deploy(&mut self, deployment: &Deployment) {
        deployment.concept_groups().for_each(|group| self.define(group.clone()));
        self.identifier_systems.extend(deployment.identifier_systems().map(|system| system.uri.clone()));
        for code in deployment.local_codes() {
            self.local_codes.entry(code.uri.namespace.clone()).or_default().push(code.clone());
        }
        for vocabulary in host_vocabularies() {
            self.vocabularies.push((Arc::new(vocabulary), NO_PACK));
        }
    }

    /// Returns the plugin of a pack; `None` for [`NO_PACK`].
    fn plugin_of(&self, pack: usize) -> Option<String> {
        self.packs.get(pack).map(|pack| pack.plugin.clone())
    }

    /// Returns the vocabularies with their local codes, each with the index of its pack.
    fn overlaid(&self) -> Result<Vec<(Arc<Vocabulary>, usize)>, Vec<PublishProblem>> {
        let mut problems = Vec::new();
        let mut overlaid = self.vocabularies.clone();
        for (vocabulary, pack) in &mut overlaid {
            let namespace = vocabulary.namespace().clone();
            let Some(codes) = self.local_codes.get(&namespace) else { continue };
            match vocabulary.with_local(&codes.iter().collect::<Vec<_>>()) {
                Ok(longer) => *vocabulary = Arc::new(longer),
                Err(fault) => {
                    let (plugin, fault) = (self.plugin_of(*pack), overlay_fault(namespace, fault));
                    problems.push(PublishProblem { plugin, fault });
                }
            }
        }
        if problems.is_empty() { Ok(overlaid) } else { Err(problems) }
    }

    /// Returns the codes and versions without a number in the table. Codes of a branch are adjacent, so that their
    /// numbers are contiguous.
    #[must_use]
    pub fn unnumbered(&self, table: &CodeTable) -> (Vec<CodeUri>, Vec<(Namespace, String)>) {
        let (mut codes, mut editions) = (Vec::new(), Vec::new());
        // A conflict needs no numbers: `build` reports it.
        for (vocabulary, _) in self.overlaid().as_deref().unwrap_or(&self.vocabularies) {
            let namespace = vocabulary.namespace();
            let new = vocabulary.preorder().filter(|concept| table.number_of(namespace, concept.code()).is_none());
            codes.extend(new.filter_map(|concept| concept.uri().ok()));
            let version = &vocabulary.description().version;
            if table.edition_number(namespace, version).is_none() {
                editions.push((namespace.clone(), version.clone()));
            }
        }
        (codes, editions)
    }

    /// Builds the generation. The builder is unchanged and may build again with a longer table.
    ///
    /// # Errors
    /// Returns every concept group that selects a nonexistent code, local codes that conflict with their vocabulary,
    /// and a code or version without a number.
    pub fn build(&self, table: Arc<CodeTable>) -> Result<Generation, Vec<PublishProblem>> {
        let index = Index::build(self.overlaid()?, table)
            .map_err(|(pack, fault)| vec![PublishProblem { plugin: self.plugin_of(pack), fault }])?;
        let definitions = self.definitions();
        let problems: Vec<PublishProblem> =
            definitions.iter().flat_map(|(definition, by)| unknown_selections(definition, by, &index)).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let concept_groups_digest = digest_of_groups(definitions.iter().map(|(definition, _)| definition));
        let digest = digest_of_all(&index, &concept_groups_digest, &self.extension_fields);
        let groups = definitions
            .into_iter()
            .map(|(definition, by)| (definition.name.clone(), PublishedGroup::expand(definition, by, &index)))
            .collect();
        let is_local = |code: &&LocalCode| index.concept_of(&code.uri).is_some_and(|(_, concept)| concept.is_local());
        let identifier_rules = IdentifierRules::of(self.local_codes.values().flatten().filter(is_local));
        Ok(Generation {
            digest,
            concept_groups_digest,
            packs: self.packs.clone(),
            index,
            groups,
            identifier_rules: Arc::new(identifier_rules),
            registered_systems: Arc::new(self.identifier_systems.clone()),
            extension_fields: self.extension_fields.clone(),
            earlier: self.earlier.clone(),
        })
    }

    /// Returns the active definitions by name: of the deployment, otherwise of a pack, otherwise an unset group.
    fn definitions(&self) -> Vec<(ConceptGroup, DefinedBy)> {
        let mut definitions: BTreeMap<&str, (ConceptGroup, DefinedBy)> = BTreeMap::new();
        for (name, description) in WELL_KNOWN_CONCEPT_GROUPS {
            let unset = ConceptGroup {
                name: name.to_owned(),
                description: description.to_owned(),
                includes: Vec::new(),
                excludes: Vec::new(),
            };
            definitions.insert(name, (unset, DefinedBy::None));
        }
        for (name, (pack, group)) in &self.groups {
            let plugin = self.plugin_of(*pack).unwrap_or_default();
            definitions.insert(name, (group.clone(), DefinedBy::Plugin(plugin)));
        }
        for (name, group) in &self.deployment_groups {
            definitions.insert(name, (group.clone(), DefinedBy::Deployment));
        }
        definitions.into_values().collect()
    }
}

fn overlay_fault(namespace: Namespace, fault: OverlayFault) -> PublishFault {
    match fault {
        OverlayFault::Taken(codes) => {
            let codes = codes.iter().map(|code| format!("{namespace}#{code}")).collect();
            PublishFault::LocalCodesTaken { namespace, codes }
        }
        OverlayFault::NotExtensible(count) => PublishFault::NotExtensible { namespace, count },
        OverlayFault::TooDeep => PublishFault::LocalCodesTooDeep { namespace },
    }
}

fn unknown_selections(definition: &ConceptGroup, by: &DefinedBy, index: &Index) -> Vec<PublishProblem> {
    let plugin = match by {
        DefinedBy::Plugin(plugin) => Some(plugin.clone()),
        DefinedBy::Deployment | DefinedBy::None => None,
    };
    let selections = definition.includes.iter().chain(&definition.excludes).map(group::uri_of);
    selections
        .filter(|uri| index.is_certainly_unknown(uri))
        .map(|uri| {
            let vocabulary = index.find(&uri.namespace).map(|installed| &installed.vocabulary);
            let nearest = vocabulary.map(|vocabulary| nearest(vocabulary, uri.code.as_str())).unwrap_or_default();
            let (name, nearest) = (definition.name.clone(), Suggestion::all(nearest));
            let fault = PublishFault::UnknownSelection { name, uri: uri.clone(), nearest };
            PublishProblem { plugin: plugin.clone(), fault }
        })
        .collect()
}

/// Returns the digest over definitions of concept groups, in their order.
pub(super) fn digest_of_groups<'a>(definitions: impl ExactSizeIterator<Item = &'a ConceptGroup>) -> ContentDigest {
    let mut digester = Digester::of("daftar concept groups 1");
    digester.number(definitions.len());
    for definition in definitions {
        group::digest(definition, &mut digester);
    }
    digester.finish()
}

/// Returns the digest over all published content that determines the display of a record: vocabularies, concept groups,
/// and declared extension fields.
fn digest_of_all(index: &Index, concept_groups: &ContentDigest, fields: &ExtensionFields) -> ContentDigest {
    let mut digester = Digester::of("daftar generation 2");
    digester.number(index.installed().len());
    for installed in index.installed() {
        let vocabulary = &installed.vocabulary;
        digester.text(vocabulary.namespace().as_str());
        digester.text(&vocabulary.description().version);
        digester.digest(vocabulary.digest());
    }
    digester.digest(concept_groups);
    digester.number(fields.iter().len());
    for field in fields.iter() {
        digester.text(field.path.as_str());
        digester.text(field.kind.name());
        digester.flag(field.repeated);
        digester.text(field.vocabulary.as_deref().unwrap_or_default());
    }
    digester.finish()
}

/// The version of the registry's own vocabularies. Their contents change with the deployment's local codes, not with
/// releases.
const HOST_VERSION: &str = "1";

/// Returns true if a namespace belongs to one of the registry's own vocabularies.
pub(super) fn is_host_vocabulary(namespace: &Namespace) -> bool {
    namespace.as_str() == PREGNANCY_STATUS_NAMESPACE
}

/// Returns the registry's own vocabularies, without codes.
pub(super) fn host_vocabularies() -> impl Iterator<Item = Vocabulary> {
    pregnancy_status().and_then(|description| Vocabulary::build(description, &[]).ok()).into_iter()
}

fn pregnancy_status() -> Option<VocabularyDescription> {
    Some(VocabularyDescription {
        namespace: Namespace::parse(PREGNANCY_STATUS_NAMESPACE).ok()?,
        name: "Pregnancy status".to_owned(),
        domain: "Health".to_owned(),
        version: HOST_VERSION.to_owned(),
        source: "The deployment's own codes".to_owned(),
        licence: "None: the codes are the deployment's own".to_owned(),
        attribution: String::new(),
        default_language: "en".to_owned(),
        languages: vec!["en".to_owned()],
        is_hierarchical: false,
        completeness: Completeness::Empty,
        is_open: false,
        is_system: true,
        is_extensible: true,
        concept_count: 0,
    })
}

/// A problem with its source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {fault}", definer(.plugin.as_deref()))]
pub struct PublishProblem {
    /// The plugin name of the pack; `None` for definitions of the deployment.
    pub plugin: Option<String>,
    /// The problem.
    pub fault: PublishFault,
}

/// Conflict between packs, or between a pack and the deployment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishFault {
    /// Another pack contains the vocabulary already.
    #[error("the vocabulary `{namespace}` is already there from `{by}`; remove that pack first")]
    NamespaceTaken {
        /// The vocabulary.
        namespace: Namespace,
        /// The other pack's plugin.
        by: String,
    },
    /// Another pack defines the concept group differently.
    #[error("the concept group `{name}` is already there from `{by}` with another definition; name it otherwise")]
    ConceptGroupTaken {
        /// The concept group.
        name: String,
        /// The other pack's plugin.
        by: String,
    },
    /// A concept group selects a code that the vocabulary of another pack, which is installed and complete, does not
    /// contain.
    #[error("the concept group `{name}` selects `{uri}`, which its vocabulary does not have{}", instead(.nearest))]
    UnknownSelection {
        /// The concept group.
        name: String,
        /// The code.
        uri: CodeUri,
        /// Closest match.
        nearest: Vec<Suggestion>,
    },
    /// A pack contains codes or aliases that are local codes of the deployment.
    #[error(
        "the vocabulary `{namespace}` brings {}, as codes or as other names of codes, which the administrator added as local codes; deprecate each of them with `daftar code deprecate`, then the pack's takes its place", quoted(.codes, "and")
    )]
    LocalCodesTaken {
        /// The vocabulary.
        namespace: Namespace,
        /// The codes.
        codes: Vec<String>,
    },
    /// A pack does not permit local codes, and local codes exist.
    #[error("the vocabulary `{namespace}` takes no local codes in this pack, and {count} are in use here")]
    NotExtensible {
        /// The vocabulary.
        namespace: Namespace,
        /// Number of local codes that are active.
        count: usize,
    },
    /// Local codes exceed the maximum depth of the hierarchy.
    #[error("with its local codes the hierarchy of `{namespace}` is too deep")]
    LocalCodesTooDeep {
        /// The vocabulary.
        namespace: Namespace,
    },
    /// A pack contains a vocabulary that is the registry's own.
    #[error("the vocabulary `{namespace}` is the registry's own: the administrator fills it with `daftar code add`")]
    HostVocabulary {
        /// The vocabulary.
        namespace: Namespace,
    },
    /// An extension field is invalid.
    #[error("{fault}{}", by.as_ref().map(|by| format!(" of `{by}`")).unwrap_or_default())]
    ExtensionField {
        /// The reason.
        fault: ExtensionFieldFault,
        /// The pack with the conflicting field.
        by: Option<String>,
    },
    /// The store assigned no number to a code or version. This is a defect of the server.
    #[error("{what} has no number; number everything that `unnumbered` lists before building")]
    NotNumbered {
        /// The first code or version without a number.
        what: String,
    },
}

fn definer(plugin: Option<&str>) -> String {
    plugin.map_or_else(|| "the deployment's definitions".to_owned(), |plugin| format!("pack `{plugin}`"))
}

fn instead(nearest: &[Suggestion]) -> String {
    let nearest: Vec<String> = nearest.iter().map(Suggestion::to_string).collect();
    if nearest.is_empty() { String::new() } else { format!("; perhaps {} is meant", joined(&nearest, "or")) }
}
