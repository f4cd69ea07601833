//! Packs put together: what clashes, what can be published, what is left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::kept;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::deployment::{Deployment, Setting, SettingKey};
use daftar_domain::error::AppError;
use daftar_domain::manifest::{PluginManifest, PluginName};
use daftar_domain::vocabulary::{ConceptGroup, PackContents};
use daftar_sandbox::{InstallError, InstalledPlugin, PluginHost, PluginLibrary, Prepared};
use daftar_vocabulary::{
    CheckedPack, CodeTable, Generation, GenerationBuilder, PackOrigin, PublishFault, PublishProblem, check,
};

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
pub(super) fn load_packs(host: &PluginHost, library: &PluginLibrary, deployment: &Deployment) -> (Packs, Reasons) {
    let (mut packs, mut reasons) = (Packs::new(), Reasons::new());
    for installed in library.current().packs() {
        let name = installed.manifest().name.clone();
        let checked = match host.load_pack(installed) {
            Ok(contents) => checked(contents, installed.manifest(), deployment),
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

/// The packs as they would be with a prepared plugin, if what it brings is sound and clashes with none of them; with them what
/// is to be kept of the versions that it replaces. None if nothing about the packs changes.
pub(super) fn with(
    packs: &Packs,
    deployment: &Deployment,
    prepared: &Prepared,
) -> Result<Option<(Packs, Vec<Setting>)>, InstallError> {
    let manifest = prepared.manifest();
    let mut changed = packs.clone();
    let Some(contents) = prepared.contents() else {
        if !manifest.extension_fields.is_empty() {
            return Err(prepared.refuse("only a vocabulary pack adds fields to records".to_owned()));
        }
        let has_replaced_a_pack = changed.remove(&manifest.name).is_some();
        return Ok(has_replaced_a_pack.then_some((changed, Vec::new())));
    };
    let checked = checked(contents.clone(), manifest, deployment).map_err(|reason| prepared.refuse(reason))?;
    let (kept, deployment) = kept::of_replaced(packs, &checked, deployment);
    let checked = Arc::new(CheckedPack::clone(&checked).with_kept(&deployment));
    let origin = PackOrigin {
        plugin: manifest.name.to_string(),
        version: manifest.version.to_string(),
        digest: prepared.digest().to_string(),
    };
    changed.insert(manifest.name.clone(), (origin, checked));
    let (_, problems) = gather(&changed, &deployment);
    if problems.is_empty() { Ok(Some((changed, kept))) } else { Err(prepared.refuse(told(&problems))) }
}

/// The codes and versions of packs that have no number yet.
pub(super) fn unnumbered(
    packs: &Packs,
    deployment: &Deployment,
    table: &CodeTable,
) -> (Vec<CodeUri>, Vec<(Namespace, String)>) {
    gather(packs, deployment).0.unnumbered(table)
}

/// The generation of all of the packs.
pub(super) fn build(
    packs: &Packs,
    deployment: &Deployment,
    table: Arc<CodeTable>,
) -> Result<Generation, Vec<PublishProblem>> {
    let (builder, problems) = gather(packs, deployment);
    if problems.is_empty() { builder.build(table) } else { Err(problems) }
}

/// The generation of as many of the packs as can be published together; each that cannot is logged. A concept group of the
/// deployment that selects what is not there any more is left out too, and logged: rules that ask for it are undetermined.
pub(super) fn publishable(
    mut packs: Packs,
    deployment: &Deployment,
    table: &Arc<CodeTable>,
) -> Result<Publishable, AppError> {
    let mut deployment = deployment.clone();
    let (mut left_out, mut reasons) = (Packs::new(), Reasons::new());
    loop {
        let problems = match build(&packs, &deployment, table.clone()) {
            Ok(generation) => return Ok(Publishable { packs, generation, left_out, reasons }),
            Err(problems) => problems,
        };
        let is_named =
            |name: &PluginName| problems.iter().any(|problem| problem.plugin.as_deref() == Some(name.as_str()));
        let (named, rest): (Packs, Packs) = packs.into_iter().partition(|(name, _)| is_named(name));
        if named.is_empty() && !leave_out_groups(&mut deployment, &problems) {
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

/// A pack as it would be taken up, without what is kept of earlier versions; none when it is not sound.
pub(super) fn checked_pack(contents: PackContents, manifest: &PluginManifest) -> Option<Arc<CheckedPack>> {
    checked(contents, manifest, &Deployment::default()).ok()
}

/// Takes out the concept groups that the problems are about; false when they are about something else.
fn leave_out_groups(deployment: &mut Deployment, problems: &[PublishProblem]) -> bool {
    let mut has_changed = false;
    for problem in problems.iter().filter(|problem| problem.plugin.is_none()) {
        if let PublishFault::UnknownSelection { name, .. } = &problem.fault
            && deployment.concept_group(name).is_some()
        {
            tracing::error!(reason = %problem, "a concept group of the deployment is left out until it is set anew");
            deployment.remove(&SettingKey::ConceptGroup(name.clone()));
            // In its place nothing, not a pack's: what the deployment meant is not known.
            deployment.put(Setting::ConceptGroup(ConceptGroup {
                name: name.clone(),
                description: String::new(),
                includes: Vec::new(),
                excludes: Vec::new(),
            }));
            has_changed = true;
        }
    }
    has_changed
}

fn checked(
    contents: PackContents,
    manifest: &PluginManifest,
    deployment: &Deployment,
) -> Result<Arc<CheckedPack>, String> {
    let checked = check(contents).map(|pack| pack.with_extension_fields(&manifest.extension_fields));
    checked.map(|pack| Arc::new(pack.with_kept(deployment))).map_err(|problems| {
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
fn gather(packs: &Packs, deployment: &Deployment) -> (GenerationBuilder, Vec<PublishProblem>) {
    let mut builder = GenerationBuilder::new();
    let mut problems = Vec::new();
    for (origin, pack) in packs.values() {
        if let Err(found) = builder.add(origin.clone(), pack) {
            problems.extend(found);
        }
    }
    builder.deploy(deployment);
    (builder, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_vocabulary::testing::{VocabularyBuilder, concept_group, origin};

    fn pack(namespace: &str, codes: &[&str], group: Option<&str>) -> Arc<CheckedPack> {
        let concepts = codes.iter().map(|code| (*code, *code));
        let vocabulary = VocabularyBuilder::new(namespace).concepts(concepts);
        let groups = group.iter().map(|selected| concept_group("chosen", &[selected], &[]));
        let contents = PackContents { vocabularies: vec![vocabulary.contents()], concept_groups: groups.collect() };
        Arc::new(check(contents).unwrap())
    }

    fn packs(of: [(&str, Arc<CheckedPack>); 2]) -> Packs {
        of.into_iter().map(|(name, pack)| (PluginName::parse(name).unwrap(), (origin(name), pack))).collect()
    }

    fn table(packs: &Packs) -> Arc<CodeTable> {
        let (codes, editions) = unnumbered(packs, &Deployment::default(), &CodeTable::default());
        Arc::new(CodeTable::new(&codes, &editions).unwrap())
    }

    #[test]
    fn a_pack_that_selects_what_is_not_there_is_left_out_with_the_reason_and_the_rest_is_published() {
        let all = packs([
            ("base", pack("urn:base", &["a"], None)),
            ("groups", pack("urn:groups", &["g"], Some("urn:base#missing"))),
        ]);
        let left = publishable(all.clone(), &Deployment::default(), &table(&all)).unwrap();
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
        let published = publishable(all.clone(), &Deployment::default(), &table(&all)).unwrap();
        assert_eq!((published.packs.len(), published.left_out.len()), (2, 0));
    }
}
