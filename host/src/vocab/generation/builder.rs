//! Puts a generation together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Generation;
use super::group::{self, DefinedBy, PublishedGroup, WELL_KNOWN_CONCEPT_GROUPS};
use super::index::Index;
use super::publish_problem::{PublishFault, PublishProblem};
use crate::domain::code::{CodeUri, Namespace};
use crate::domain::vocabulary::ConceptGroup;
use crate::vocab::check::CheckedPack;
use crate::vocab::code_problem::Suggestion;
use crate::vocab::digest::{ContentDigest, Digester};
use crate::vocab::nearest::nearest;
use crate::vocab::table::CodeTable;
use crate::vocab::vocabulary::Vocabulary;

/// Where a pack came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackOrigin {
    /// The plugin's name.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
    /// Digest of the plugin's file, as text.
    pub digest: String,
}

/// Gathers packs and definitions, then builds.
///
/// The order of calls: [`Self::add`] each pack, [`Self::define`] the deployment's concept groups, give numbers to what
/// [`Self::unnumbered`] lists, [`Self::build`]. Whoever wants a bad pack to leave the others served drops the packs that the
/// problems name and begins again with the rest.
#[derive(Debug, Default)]
pub struct GenerationBuilder {
    packs: Vec<PackOrigin>,
    vocabularies: Vec<(Arc<Vocabulary>, usize)>,
    /// The place of the pack that brings a namespace.
    taken: HashMap<Namespace, usize>,
    /// The place of the pack that brings the group, and the definition.
    groups: BTreeMap<String, (usize, ConceptGroup)>,
    deployment_groups: BTreeMap<String, ConceptGroup>,
}

impl GenerationBuilder {
    /// Begins with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pack whole.
    ///
    /// # Errors
    /// Every clash with the packs that are there; then nothing of it is added.
    pub fn add(&mut self, origin: PackOrigin, pack: &CheckedPack) -> Result<(), Vec<PublishProblem>> {
        let name_of = |place: usize| self.packs.get(place).map_or(String::new(), |pack| pack.plugin.clone());
        let mut problems = Vec::new();
        let mut push = |fault| problems.push(PublishProblem { plugin: Some(origin.plugin.clone()), fault });
        for vocabulary in pack.vocabularies() {
            let namespace = vocabulary.namespace();
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
        if !problems.is_empty() {
            return Err(problems);
        }
        let place = self.packs.len();
        self.packs.push(origin);
        for vocabulary in pack.vocabularies() {
            self.taken.insert(vocabulary.namespace().clone(), place);
            self.vocabularies.push((Arc::clone(vocabulary), place));
        }
        for group in pack.concept_groups() {
            self.groups.entry(group.name.clone()).or_insert_with(|| (place, group.clone()));
        }
        Ok(())
    }

    /// Sets a concept group as the deployment wants it, in place of any pack's. It was checked with
    /// [`crate::vocab::check_concept_group`].
    pub fn define(&mut self, group: ConceptGroup) {
        self.deployment_groups.insert(group.name.clone(), group);
    }

    /// The codes and versions that have no number in the table yet. Codes below one another come together, so that the
    /// numbers of a branch lie side by side.
    #[must_use]
    pub fn unnumbered(&self, table: &CodeTable) -> (Vec<CodeUri>, Vec<(Namespace, String)>) {
        let (mut codes, mut editions) = (Vec::new(), Vec::new());
        for (vocabulary, _) in &self.vocabularies {
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

    /// Builds the generation. The builder stays as it is and may build again with a longer table.
    ///
    /// # Errors
    /// Every concept group that selects a code which cannot exist; a code or version without a number.
    pub fn build(&self, table: Arc<CodeTable>) -> Result<Generation, Vec<PublishProblem>> {
        let index = Index::build(self.vocabularies.clone(), table).map_err(|(pack, fault)| {
            let plugin = self.packs.get(pack).map(|pack| pack.plugin.clone());
            vec![PublishProblem { plugin, fault }]
        })?;
        let definitions = self.definitions();
        let problems: Vec<PublishProblem> =
            definitions.iter().flat_map(|(definition, by)| unknown_selections(definition, by, &index)).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let concept_groups_digest = digest_of_groups(definitions.iter().map(|(definition, _)| definition));
        let digest = digest_of_all(&index, &concept_groups_digest);
        let groups = definitions
            .into_iter()
            .map(|(definition, by)| (definition.name.clone(), PublishedGroup::expand(definition, by, &index)))
            .collect();
        Ok(Generation { digest, concept_groups_digest, packs: self.packs.clone(), index, groups })
    }

    /// The definitions in force, by name: the deployment's, else a pack's, else none yet.
    fn definitions(&self) -> Vec<(ConceptGroup, DefinedBy)> {
        let mut definitions: BTreeMap<&str, (ConceptGroup, DefinedBy)> = BTreeMap::new();
        for (name, description) in WELL_KNOWN_CONCEPT_GROUPS {
            let unset = ConceptGroup {
                name: name.to_owned(),
                description: description.to_owned(),
                includes: Vec::new(),
                excludes: Vec::new(),
            };
            definitions.insert(name, (unset, DefinedBy::Nobody));
        }
        for (name, (pack, group)) in &self.groups {
            let plugin = self.packs.get(*pack).map_or(String::new(), |pack| pack.plugin.clone());
            definitions.insert(name, (group.clone(), DefinedBy::Plugin(plugin)));
        }
        for (name, group) in &self.deployment_groups {
            definitions.insert(name, (group.clone(), DefinedBy::Deployment));
        }
        definitions.into_values().collect()
    }
}

fn unknown_selections(definition: &ConceptGroup, by: &DefinedBy, index: &Index) -> Vec<PublishProblem> {
    let plugin = match by {
        DefinedBy::Plugin(plugin) => Some(plugin.clone()),
        DefinedBy::Deployment | DefinedBy::Nobody => None,
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

fn digest_of_groups<'a>(definitions: impl ExactSizeIterator<Item = &'a ConceptGroup>) -> ContentDigest {
    let mut digester = Digester::of("daftar concept groups 1");
    digester.number(definitions.len());
    for definition in definitions {
        group::digest(definition, &mut digester);
    }
    digester.finish()
}

fn digest_of_all(index: &Index, concept_groups: &ContentDigest) -> ContentDigest {
    let mut digester = Digester::of("daftar generation 1");
    digester.number(index.installed().len());
    for installed in index.installed() {
        let vocabulary = &installed.vocabulary;
        digester.text(vocabulary.namespace().as_str());
        digester.text(&vocabulary.description().version);
        digester.digest(vocabulary.digest());
    }
    digester.digest(concept_groups);
    digester.finish()
}
