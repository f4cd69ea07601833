//! Packs put together: which clash, which can be published, which are left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::deployment::{Deployment, Setting, SettingKey};
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
use daftar_domain::vocabulary::ConceptGroup;
use daftar_vocabulary::{
    CheckedPack, CodeTable, Generation, GenerationBuilder, PackOrigin, PublishFault, PublishProblem,
};

/// The most problems of a pack that one message shows.
pub(crate) const PROBLEMS_SHOWN_MAX: usize = 20;

/// Checked packs with their origins, by plugin.
pub(crate) type Packs = BTreeMap<PluginName, (PackOrigin, Arc<CheckedPack>)>;

/// Why installed plugins are not active, by name.
pub(crate) type Reasons = BTreeMap<PluginName, String>;

/// The packs that can be published together.
pub(crate) struct Publishable {
    pub packs: Packs,
    /// Their generation.
    pub generation: Generation,
    /// The other packs.
    pub left_out: Packs,
    /// Why they are left out.
    pub reasons: Reasons,
}

/// The codes and versions of packs that have no number yet.
pub(crate) fn unnumbered(
    packs: &Packs,
    deployment: &Deployment,
    table: &CodeTable,
) -> (Vec<CodeUri>, Vec<(Namespace, String)>) {
    gather(packs, deployment).0.unnumbered(table)
}

/// The generation of all of the packs.
pub(crate) fn build(
    packs: &Packs,
    deployment: &Deployment,
    table: Arc<CodeTable>,
) -> Result<Generation, Vec<PublishProblem>> {
    let (builder, problems) = gather(packs, deployment);
    if problems.is_empty() { builder.build(table) } else { Err(problems) }
}

/// The generation of as many of the packs as can be published together; each that cannot is logged. A concept group of the
/// deployment that selects what is not there any more is left out too, and logged: rules that ask for it are undetermined.
pub(crate) fn publishable(
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
            return Err(AppError::internal(in_one_line(&problems)));
        }
        for name in named.keys() {
            let of_it = problems.iter().filter(|problem| problem.plugin.as_deref() == Some(name.as_str()));
            reasons.insert(name.clone(), in_one_line(of_it));
        }
        left_out.extend(named);
        packs = rest;
    }
}

/// Problems in one line.
pub(crate) fn in_one_line<'a>(problems: impl IntoIterator<Item = &'a PublishProblem>) -> String {
    problems.into_iter().take(PROBLEMS_SHOWN_MAX).map(ToString::to_string).collect::<Vec<_>>().join("; ")
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

/// A builder with all packs that do not clash, and the clashes.
pub(crate) fn gather(packs: &Packs, deployment: &Deployment) -> (GenerationBuilder, Vec<PublishProblem>) {
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
    use daftar_domain::vocabulary::PackContents;
    use daftar_vocabulary::check;
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
