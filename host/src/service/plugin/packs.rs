//! Packs put together: what clashes, what can be published, what is left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::code::{CodeUri, Namespace};
use crate::domain::manifest::PluginName;
use crate::domain::vocabulary::PackContents;
use crate::error::AppError;
use crate::plugin::{InstallError, InstalledPlugin, PluginHost, PluginLibrary, Prepared};
use crate::vocab::{CheckedPack, CodeTable, Generation, GenerationBuilder, PackOrigin, PublishProblem, check};

/// The most problems of a pack that one message tells.
const PROBLEMS_TOLD_MAX: usize = 20;

/// Checked packs with where they came from, by plugin.
pub(super) type Packs = BTreeMap<PluginName, (PackOrigin, Arc<CheckedPack>)>;

/// Why installed plugins are not in force, by name.
pub(super) type Reasons = BTreeMap<PluginName, String>;

/// The packs that can be published together.
pub(super) struct Publishable {
    pub packs: Packs,
    pub generation: Generation,
    /// The others, with the reasons.
    pub left_out: Packs,
    pub reasons: Reasons,
}

/// Reads and checks every installed pack; one that is not sound is logged and left out.
pub(super) fn load_packs(host: &PluginHost, library: &PluginLibrary) -> (Packs, Reasons) {
    let (mut packs, mut reasons) = (Packs::new(), Reasons::new());
    for installed in library.current().packs() {
        let name = installed.manifest().name.clone();
        let checked = match host.load_pack(installed) {
            Ok(contents) => checked(contents),
            Err(error) => Err(error.to_string()),
        };
        match checked {
            Ok(checked) => drop(packs.insert(name, (origin(installed), checked))),
            Err(reason) => {
                tracing::error!(plugin = %name, reason, "an installed pack is not sound, the rest is served");
                reasons.insert(name, reason);
            }
        }
    }
    (packs, reasons)
}

/// The packs as they would be with a prepared plugin, if what it brings is sound and clashes with none of them; none if
/// nothing about them changes.
pub(super) fn with(packs: &Packs, prepared: &Prepared) -> Result<Option<Packs>, InstallError> {
    let manifest = prepared.manifest();
    let mut changed = packs.clone();
    let Some(contents) = prepared.contents() else {
        let has_replaced_a_pack = changed.remove(&manifest.name).is_some();
        return Ok(has_replaced_a_pack.then_some(changed));
    };
    let checked = checked(contents.clone()).map_err(|reason| prepared.refuse(reason))?;
    let origin = PackOrigin {
        plugin: manifest.name.to_string(),
        version: manifest.version.to_string(),
        digest: prepared.digest().to_string(),
    };
    changed.insert(manifest.name.clone(), (origin, checked));
    let (_, problems) = gather(&changed);
    if problems.is_empty() { Ok(Some(changed)) } else { Err(prepared.refuse(told(&problems))) }
}

/// The codes and versions of packs that have no number yet.
pub(super) fn unnumbered(packs: &Packs, table: &CodeTable) -> (Vec<CodeUri>, Vec<(Namespace, String)>) {
    gather(packs).0.unnumbered(table)
}

/// The generation of all of the packs.
pub(super) fn build(packs: &Packs, table: Arc<CodeTable>) -> Result<Generation, Vec<PublishProblem>> {
    let (builder, problems) = gather(packs);
    if problems.is_empty() { builder.build(table) } else { Err(problems) }
}

/// The generation of as many of the packs as can be published together; each that cannot is logged.
pub(super) fn publishable(mut packs: Packs, table: &Arc<CodeTable>) -> Result<Publishable, AppError> {
    let (mut left_out, mut reasons) = (Packs::new(), Reasons::new());
    loop {
        let problems = match build(&packs, table.clone()) {
            Ok(generation) => return Ok(Publishable { packs, generation, left_out, reasons }),
            Err(problems) => problems,
        };
        let is_named =
            |name: &PluginName| problems.iter().any(|problem| problem.plugin.as_deref() == Some(name.as_str()));
        let (named, rest): (Packs, Packs) = packs.into_iter().partition(|(name, _)| is_named(name));
        if named.is_empty() {
            return Err(AppError::internal(told(&problems)));
        }
        for name in named.keys() {
            let of_it = problems.iter().filter(|problem| problem.plugin.as_deref() == Some(name.as_str()));
            reasons.insert(name.clone(), told(of_it));
        }
        left_out.extend(named);
        packs = rest;
    }
}

/// Problems in one line.
pub(super) fn told<'a>(problems: impl IntoIterator<Item = &'a PublishProblem>) -> String {
    problems.into_iter().take(PROBLEMS_TOLD_MAX).map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn origin(installed: &InstalledPlugin) -> PackOrigin {
    let manifest = installed.manifest();
    PackOrigin {
        plugin: manifest.name.to_string(),
        version: manifest.version.to_string(),
        digest: installed.loaded().digest().to_string(),
    }
}

fn checked(contents: PackContents) -> Result<Arc<CheckedPack>, String> {
    check(contents).map(Arc::new).map_err(|problems| {
        let mut lines: Vec<String> =
            problems.problems().iter().take(PROBLEMS_TOLD_MAX).map(ToString::to_string).collect();
        let untold = problems.count().saturating_sub(lines.len());
        if untold > 0 {
            lines.push(format!("and {untold} more"));
        }
        lines.join("; ")
    })
}

/// A builder with all packs that do not clash, and the clashes.
fn gather(packs: &Packs) -> (GenerationBuilder, Vec<PublishProblem>) {
    let mut builder = GenerationBuilder::new();
    let mut problems = Vec::new();
    for (origin, pack) in packs.values() {
        if let Err(found) = builder.add(origin.clone(), pack) {
            problems.extend(found);
        }
    }
    (builder, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::testing::{VocabularyBuilder, concept_group, origin};

    fn pack(namespace: &str, codes: &[&str], group: Option<&str>) -> Arc<CheckedPack> {
        let concepts = codes.iter().map(|code| (*code, *code));
        let vocabulary = VocabularyBuilder::new(namespace).concepts(concepts);
        let groups = group.iter().map(|selected| concept_group("chosen", &[selected], &[]));
        let contents = PackContents { vocabularies: vec![vocabulary.contents()], concept_groups: groups.collect() };
        checked(contents).unwrap()
    }

    fn packs(of: [(&str, Arc<CheckedPack>); 2]) -> Packs {
        of.into_iter().map(|(name, pack)| (PluginName::parse(name).unwrap(), (origin(name), pack))).collect()
    }

    fn table(packs: &Packs) -> Arc<CodeTable> {
        let (codes, editions) = unnumbered(packs, &CodeTable::default());
        Arc::new(CodeTable::new(&codes, &editions).unwrap())
    }

    #[test]
    fn a_pack_that_selects_what_is_not_there_is_left_out_with_the_reason_and_the_rest_is_published() {
        let all = packs([
            ("base", pack("urn:base", &["a"], None)),
            ("groups", pack("urn:groups", &["g"], Some("urn:base#missing"))),
        ]);
        let left = publishable(all.clone(), &table(&all)).unwrap();
        assert_eq!(left.packs.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["base"]);
        assert_eq!(left.left_out.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["groups"]);
        let reasons: Vec<_> = left.reasons.values().collect();
        assert!(matches!(reasons.as_slice(), [reason] if reason.contains("urn:base#missing")), "{reasons:?}");
    }

    #[test]
    fn packs_that_go_together_are_all_published() {
        let all = packs([
            ("base", pack("urn:base", &["a"], None)),
            ("groups", pack("urn:groups", &["g"], Some("urn:base#a"))),
        ]);
        let published = publishable(all.clone(), &table(&all)).unwrap();
        assert_eq!((published.packs.len(), published.left_out.len()), (2, 0));
    }
}
