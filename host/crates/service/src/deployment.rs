//! Operations on the keyed lists of the deployment: concept groups, identifier systems, and local codes.
//!
//! **Invariant:** every code of a group exists when the group is set. The deployment's definition overrides a pack's.
//!
//! **Invariant:** identifiers in records stay valid after the removal of their system: the list restricts only new
//! identifiers.
//!
//! **Invariant:** a local code is added once. Its labels and the pattern of its values may change, and it may be
//! deprecated. It is never deleted, and its meaning never changes.

use crate::vocabulary_publisher::{Decision, VocabularyPublisher};
use daftar_domain::code::{Code, CodeNumber, CodeUri, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{CONCEPT_GROUPS_MAX, Deployment, Setting, SettingKey};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::identifier::SystemUri;
use daftar_domain::identifier::{IDENTIFIER_SYSTEMS_MAX, IdentifierSystem};
use daftar_domain::local_code::{
    EXTENSIBLE_NAMESPACES, IdTarget, IdTypeRule, LOCAL_CODES_MAX, LocalCode, LocalOrigin, LocalStanding, ValuePattern,
    check_labels, check_reference, parse_code,
};
use daftar_domain::vocabulary::{ConceptGroup, ConceptStatus, ID_TYPE_NAMESPACE, LocalizedText, Selection};
pub use daftar_vocabulary::limits::{DESCRIPTION_TEXT_BYTES_MAX, SELECTIONS_MAX};
use daftar_vocabulary::{ConceptRef, Generation, LookUpProblem, Vocabulary, check_concept_group, check_pattern};

/// Maximum number of problems for which the closest valid code is searched.
const SEARCHES_MAX: usize = 50;

/// Defines a concept group for this deployment. The definition overrides any pack's.
///
/// # Errors
/// [`AppError::Invalid`] with every invalid selection, [`AppError::Conflict`] if the list is full, or if the store
/// fails.
pub async fn set_concept_group(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    group: ConceptGroup,
) -> Result<(), AppError> {
    let target = group.name.clone();
    let decide = move |deployment: &Deployment, generation: &Generation| {
        check_selections(generation, &group)?;
        let is_new = deployment.concept_group(&group.name).is_none();
        if is_new && deployment.concept_groups().len() >= CONCEPT_GROUPS_MAX {
            let message = format!("there are {CONCEPT_GROUPS_MAX} concept groups, the maximum");
            return Err(AppError::Conflict(ErrorCode::LimitReached, message));
        }
        Ok(Decision::Put(Box::new(Setting::ConceptGroup(group))))
    };
    publisher.decide(ctx, shown(&target), "concept group set", decide).await
}

/// Removes the deployment's definition: the pack's definition applies again, if one exists.
///
/// # Errors
/// [`AppError::NotThere`] if the deployment defines no such group, or if the store fails.
pub async fn reset_concept_group(ctx: &OpContext, publisher: &VocabularyPublisher, name: &str) -> Result<(), AppError> {
    let of = name.to_owned();
    let decide = move |deployment: &Deployment, _: &Generation| {
        if deployment.concept_group(&of).is_none() {
            let message = format!(
                "the deployment defines no concept group `{}`; `daftar concept-group list` shows who defines what",
                shown(&of)
            );
            return Err(AppError::NotThere(FieldProblem::new("name", "unknown_concept_group", message)));
        }
        Ok(Decision::Remove(SettingKey::ConceptGroup(of)))
    };
    publisher.decide(ctx, shown(name), "concept group reset", decide).await
}

fn check_selections(generation: &Generation, group: &ConceptGroup) -> Result<(), AppError> {
    let mut problems = Vec::new();
    if let Err(found) = check_concept_group(group.clone()) {
        problems.extend(found.problems().iter().map(|problem| FieldProblem::new("", "invalid", problem.to_string())));
    }
    if group.includes.is_empty() {
        let message = "a concept group includes at least one code; to take the deployment's definition back, reset it";
        problems.push(FieldProblem::new("includes", "required", message));
    }
    for (field, selections) in [("includes", &group.includes), ("excludes", &group.excludes)] {
        for (at, selection) in selections.iter().enumerate() {
            let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = selection;
            // Many unknown codes in one group indicate another kind of mistake, and each search for the closest code
            // is expensive.
            let absent = (problems.len() >= SEARCHES_MAX).then(|| generation.plainly_absent(uri)).flatten();
            let problem = match absent {
                Some(LookUpProblem::Code(problem)) => Some(problem),
                Some(LookUpProblem::UnknownNamespace { .. } | LookUpProblem::NotInstalled { .. }) | None => {
                    generation.check_known(uri).err()
                }
            };
            problems.extend(problem.map(|problem| problem.at(format!("{field}[{at}]"))));
        }
    }
    AppError::check(&mut problems)
}

/// Prefix of a name that a message repeats.
fn shown(name: &str) -> String {
    name.chars().filter(|one| !one.is_control()).take(64).collect()
}

/// Registers a system.
///
/// # Errors
/// [`AppError::Invalid`] for a code of the ID types, [`AppError::Conflict`] if it is registered already or the list is
/// full, or if the store fails.
pub async fn add_identifier_system(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    uri: SystemUri,
) -> Result<IdentifierSystem, AppError> {
    let system = IdentifierSystem { uri, created_at: ctx.now };
    let (target, new) = (system.uri.to_string(), system.clone());
    let decide = move |deployment: &Deployment, _: &Generation| {
        let is_id_type = CodeUri::parse(new.uri.as_str()).is_ok_and(|uri| uri.namespace.as_str() == ID_TYPE_NAMESPACE);
        if is_id_type || new.uri.as_str() == ID_TYPE_NAMESPACE {
            let message = format!(
                "codes of `{ID_TYPE_NAMESPACE}` are systems by themselves; add one of your own with `daftar code add`"
            );
            return Err(AppError::invalid("uri", "id_type", message));
        }
        if deployment.identifier_system(&new.uri).is_some() {
            let message = format!("the identifier system `{}` is registered already", new.uri);
            return Err(AppError::Conflict(ErrorCode::AlreadyExists, message));
        }
        if deployment.identifier_systems().len() >= IDENTIFIER_SYSTEMS_MAX {
            let message = format!("there are {IDENTIFIER_SYSTEMS_MAX} identifier systems, the maximum");
            return Err(AppError::Conflict(ErrorCode::LimitReached, message));
        }
        Ok(Decision::Put(Box::new(Setting::IdentifierSystem(new))))
    };
    publisher.decide(ctx, target, "identifier system added", decide).await?;
    Ok(system)
}

/// Removes a system: new identifiers may not use it; identifiers in records stay.
///
/// # Errors
/// [`AppError::NotThere`] if it is not registered, or if the store fails.
pub async fn remove_identifier_system(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    uri: &SystemUri,
) -> Result<(), AppError> {
    let of = uri.clone();
    let decide = move |deployment: &Deployment, _: &Generation| {
        if deployment.identifier_system(&of).is_none() {
            let message = format!(
                "no identifier system `{of}` is registered; `daftar identifier-system list` shows which ones are"
            );
            return Err(AppError::NotThere(FieldProblem::new("uri", "unknown_system", message)));
        }
        Ok(Decision::Remove(SettingKey::IdentifierSystem(of)))
    };
    publisher.decide(ctx, uri.to_string(), "identifier system removed", decide).await
}

/// The registered systems, by URI.
#[must_use]
pub fn identifier_systems(publisher: &VocabularyPublisher) -> Vec<IdentifierSystem> {
    publisher.deployment().identifier_systems().cloned().collect()
}

/// A local code to add.
#[derive(Debug, Clone)]
pub struct NewLocalCode {
    /// The code.
    pub uri: CodeUri,
    /// The broader code of the same vocabulary.
    pub specialises: Option<CodeUri>,
    /// Its name, which is required, and the other members that a later change may set.
    pub details: LocalCodeChange,
}

/// Changes of a local code; absent members stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct LocalCodeChange {
    /// All labels.
    pub labels: Option<Vec<LocalizedText>>,
    /// A reference with more information, or `None` to remove it.
    pub reference: Option<Option<String>>,
    /// The pattern of values, or `None` to remove it; only for ID types.
    pub pattern: Option<Option<ValuePattern>>,
    /// Kind of record with such identifiers; only for ID types.
    pub target: Option<IdTarget>,
}

/// A local code with its number of uses.
#[derive(Debug, Clone)]
pub struct LocalCodeView {
    /// The code.
    pub code: LocalCode,
    /// True if its vocabulary is active and contains it.
    pub is_active: bool,
    /// Number of records with this code in a coded field; none for an ID type, which is used in no coded field.
    pub records: Option<u64>,
}

/// Adds a local code.
///
/// # Errors
/// [`AppError::Invalid`] with all problems, [`AppError::Conflict`] if the code exists already or the limit is reached,
/// or if the store fails.
pub async fn add_local_code(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    new: NewLocalCode,
) -> Result<LocalCodeView, AppError> {
    let uri = new.uri.clone();
    let (now, records) = (ctx.now, records_of(publisher, &uri).await?);
    let decide = move |deployment: &Deployment, generation: &Generation| {
        let code = checked_code(new, deployment, generation, records, now)?;
        Ok(Decision::Put(Box::new(Setting::LocalCode(code))))
    };
    publisher.decide(ctx, uri.to_string(), "local code added", decide).await?;
    local_code(publisher, &uri).await
}

/// Changes the labels of a local code or the pattern of its values.
///
/// # Errors
/// [`AppError::NotThere`], [`AppError::Invalid`] with all problems, or if the store fails.
pub async fn update_local_code(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    uri: &CodeUri,
    change: LocalCodeChange,
) -> Result<LocalCodeView, AppError> {
    let (changed, now) = (uri.clone(), ctx.now);
    let decide = move |deployment: &Deployment, _: &Generation| {
        let mut code = own_code(deployment, &changed)?.clone();
        let mut problems = Vec::new();
        apply_change(&mut code, change, &mut problems);
        AppError::check(&mut problems)?;
        code.updated_at = now;
        Ok(Decision::Put(Box::new(Setting::LocalCode(code))))
    };
    publisher.decide(ctx, uri.to_string(), "local code changed", decide).await?;
    local_code(publisher, uri).await
}

/// Deprecates a local code, or a code of a starter set, permanently: new records may not use it, stored records retain
/// it. A successor that was set before stays unless the request names another one.
///
/// # Errors
/// [`AppError::NotThere`], [`AppError::Conflict`] for a code of the vocabulary's publisher, [`AppError::Invalid`] for
/// an invalid successor, or if the store fails.
pub async fn deprecate_local_code(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    uri: &CodeUri,
    successor: Option<CodeUri>,
) -> Result<LocalCodeView, AppError> {
    let (deprecated, now) = (uri.clone(), ctx.now);
    let decide = move |deployment: &Deployment, generation: &Generation| {
        let mut code = match deployment.local_code(&deprecated) {
            Some(code) => code.clone(),
            None => starter(generation, &deprecated, now)?,
        };
        let replaced_by = match &successor {
            Some(successor) => Some(check_successor(generation, &deprecated, successor)?),
            // A stored value stays unchanged.
            None => code.replaced_by().cloned(),
        };
        code.standing = LocalStanding::Deprecated { replaced_by };
        code.updated_at = now;
        Ok(Decision::Put(Box::new(Setting::LocalCode(code))))
    };
    publisher.decide(ctx, uri.to_string(), "local code deprecated", decide).await?;
    local_code(publisher, uri).await
}

/// Returns every local code, by URI.
///
/// # Errors
/// If the store fails.
pub async fn local_codes(publisher: &VocabularyPublisher) -> Result<Vec<LocalCodeView>, AppError> {
    let deployment = publisher.deployment();
    let registry = publisher.registry();
    let generation = registry.vocabularies.current();
    let numbers: Vec<CodeNumber> =
        deployment.local_codes().filter_map(|code| generation.number_of(&code.uri)).collect();
    let held = registry.index.current().await.records_by_code(&numbers).await?;
    let records = |code: &LocalCode| {
        let number = generation.number_of(&code.uri);
        number.and_then(|number| held.get(&number)).copied().unwrap_or_default()
    };
    Ok(deployment.local_codes().map(|code| local_code_view(&generation, code, records(code))).collect())
}

/// Returns one local code.
///
/// # Errors
/// [`AppError::NotThere`].
pub async fn local_code(publisher: &VocabularyPublisher, uri: &CodeUri) -> Result<LocalCodeView, AppError> {
    let deployment = publisher.deployment();
    let code = deployment.local_code(uri).ok_or_else(|| no_such_code(&deployment, uri))?;
    let generation = publisher.registry().vocabularies.current();
    Ok(local_code_view(&generation, code, records_of(publisher, uri).await?))
}

fn local_code_view(generation: &Generation, code: &LocalCode, records: u64) -> LocalCodeView {
    let is_active = generation.check_known(&code.uri).is_ok();
    LocalCodeView { code: code.clone(), is_active, records: code.id_type.is_none().then_some(records) }
}

async fn records_of(publisher: &VocabularyPublisher, uri: &CodeUri) -> Result<u64, AppError> {
    let registry = publisher.registry();
    let Some(number) = registry.vocabularies.current().number_of(uri) else { return Ok(0) };
    Ok(registry.index.current().await.records_using(&[number]).await?)
}

/// The code to store, if it is valid.
fn checked_code(
    new: NewLocalCode,
    deployment: &Deployment,
    generation: &Generation,
    records: u64,
    now: jiff::Timestamp,
) -> Result<LocalCode, AppError> {
    let vocabulary = extensible(generation, &new.uri.namespace)?;
    let NewLocalCode { uri, specialises, details } = new;
    let mut problems = Vec::new();
    if let Err(error) = parse_code(uri.code.as_str()) {
        problems.push(FieldProblem::new("code", "invalid", error.to_string()));
    }
    let mut code = unchanged_code(&uri, LocalOrigin::Deployment, now);
    code.id_type = (uri.namespace.as_str() == ID_TYPE_NAMESPACE).then(IdTypeRule::default);
    code.specialises = specialises.as_ref().map(|parent| parent.code.clone());
    let labels = Some(details.labels.unwrap_or_default());
    apply_change(&mut code, LocalCodeChange { labels, ..details }, &mut problems);
    if let Some(parent) = &specialises {
        match check_sibling(generation, &uri, parent) {
            Ok(concept) if concept.status() == ConceptStatus::Active => {}
            Ok(_) => {
                let message = format!("`{parent}` is no longer in use");
                problems.push(FieldProblem::new("specialises", "inactive_code", message));
            }
            Err(problem) => problems.push(FieldProblem { field: "specialises".to_owned(), ..problem }),
        }
    }
    AppError::check(&mut problems)?;
    refuse_known(vocabulary, &uri)?;
    if deployment.local_code(&uri).is_some() || records > 0 {
        let message = format!("`{uri}` was a code here before and is never given another meaning; choose another");
        return Err(AppError::Conflict(ErrorCode::AlreadyExists, message));
    }
    if deployment.local_codes().len() >= LOCAL_CODES_MAX {
        let message = format!("there are {LOCAL_CODES_MAX} local codes, the maximum");
        return Err(AppError::Conflict(ErrorCode::LimitReached, message));
    }
    Ok(code)
}

/// A local code without any members set.
fn unchanged_code(uri: &CodeUri, origin: LocalOrigin, now: jiff::Timestamp) -> LocalCode {
    LocalCode {
        uri: uri.clone(),
        origin,
        specialises: None,
        labels: Vec::new(),
        reference: None,
        id_type: None,
        standing: LocalStanding::Active,
        created_at: now,
        updated_at: now,
    }
}

/// The vocabulary of a namespace, if it accepts local codes.
fn extensible<'a>(generation: &'a Generation, namespace: &Namespace) -> Result<&'a Vocabulary, AppError> {
    if !EXTENSIBLE_NAMESPACES.contains(&namespace.as_str()) {
        let known: Vec<String> = EXTENSIBLE_NAMESPACES.iter().map(|known| format!("`{known}`")).collect();
        let message = format!("`{namespace}` takes no local codes; those that do: {}", known.join(", "));
        return Err(AppError::invalid("namespace", "not_extensible", message));
    }
    let Some(vocabulary) = generation.vocabulary(namespace) else {
        let problem = generation.named(namespace).err();
        let message = problem.map_or_else(String::new, |problem| problem.to_string());
        return Err(AppError::invalid("namespace", "vocabulary_not_installed", message));
    };
    if !vocabulary.description().is_extensible {
        let message = format!("the installed pack of `{namespace}` does not let local codes be added");
        return Err(AppError::invalid("namespace", "not_extensible", message));
    }
    Ok(vocabulary)
}

fn refuse_known(vocabulary: &Vocabulary, uri: &CodeUri) -> Result<(), AppError> {
    let code = uri.code.as_str();
    let message = if let Some(known) = vocabulary.find(code) {
        let whose = if known.is_local() { "a local code" } else { "a code of its vocabulary" };
        let standing = match known.status() {
            ConceptStatus::Active => "",
            ConceptStatus::Inactive => ", no longer in use; a code is never used again",
        };
        format!("`{uri}` ({}) is {whose} already{standing}", known.default_label())
    } else if let Some(known) = vocabulary.find_alias(code) {
        format!("`{code}` is another name of `{}` ({}); choose another code", known.uri_text(), known.default_label())
    } else {
        return Ok(());
    };
    Err(AppError::Conflict(ErrorCode::AlreadyExists, message))
}

/// The concept of a code of the same vocabulary.
fn check_sibling<'a>(
    generation: &'a Generation,
    uri: &CodeUri,
    sibling: &CodeUri,
) -> Result<ConceptRef<'a>, FieldProblem> {
    if sibling.namespace != uri.namespace {
        let message = format!("`{sibling}` is of another vocabulary; a code of `{}` is needed", uri.namespace);
        return Err(FieldProblem::new("", "wrong_vocabulary", message));
    }
    generation.check_known(sibling).map_err(|problem| problem.at(""))
}

fn check_successor(generation: &Generation, uri: &CodeUri, successor: &CodeUri) -> Result<Code, AppError> {
    let refuse = |code, message: String| AppError::invalid("replaced_by", code, message);
    if successor == uri {
        return Err(refuse("invalid", "a code is not its own successor".to_owned()));
    }
    let concept = check_sibling(generation, uri, successor).map_err(|problem| refuse(problem.code, problem.message))?;
    if !concept.is_usable() {
        return Err(refuse("inactive_code", format!("`{successor}` is not in use itself; name a code that is")));
    }
    Ok(successor.code.clone())
}

/// The deployment's override for a code of a starter set.
fn starter(generation: &Generation, uri: &CodeUri, now: jiff::Timestamp) -> Result<LocalCode, AppError> {
    let concept = generation.check_known(uri).map_err(|problem| AppError::NotThere(problem.at("code")))?;
    let is_extensible = EXTENSIBLE_NAMESPACES.contains(&uri.namespace.as_str());
    if !is_extensible || !concept.is_starter() {
        let message =
            format!("`{uri}` belongs to its vocabulary's owner and is read-only; only local codes are deprecated");
        return Err(AppError::Conflict(ErrorCode::Conflict, message));
    }
    Ok(unchanged_code(uri, LocalOrigin::StarterSet, now))
}

/// A local code of the deployment's own.
fn own_code<'a>(deployment: &'a Deployment, uri: &CodeUri) -> Result<&'a LocalCode, AppError> {
    let code = deployment.local_code(uri).ok_or_else(|| no_such_code(deployment, uri))?;
    match code.origin {
        LocalOrigin::Deployment => Ok(code),
        LocalOrigin::StarterSet => {
            let message = format!("`{uri}` comes with a pack; it can be deprecated, not changed");
            Err(AppError::Conflict(ErrorCode::Conflict, message))
        }
    }
}

/// Applies the valid members of a change to a local code and adds the invalid ones to the problems.
fn apply_change(code: &mut LocalCode, change: LocalCodeChange, problems: &mut Vec<FieldProblem>) {
    let mut add = |field: &str, code, message: String| {
        problems.push(FieldProblem::new(field, code, message));
    };
    if let Some(labels) = change.labels {
        match check_labels(&labels) {
            Ok(()) => code.labels = labels,
            Err(error) => add("labels", "invalid", error.to_string()),
        }
    }
    if let Some(reference) = change.reference {
        match reference.as_deref().map_or(Ok(()), check_reference) {
            Ok(()) => code.reference = reference,
            Err(error) => add("reference", "invalid", error.to_string()),
        }
    }
    match &mut code.id_type {
        Some(rule) => {
            if let Some(pattern) = change.pattern {
                match pattern.as_ref().map_or(Ok(()), check_pattern) {
                    Ok(()) => rule.pattern = pattern,
                    Err(reason) => add("value_pattern", "invalid_pattern", format!("the pattern is refused: {reason}")),
                }
            }
            rule.target = change.target.unwrap_or(rule.target);
        }
        None => {
            for (field, is_given) in
                [("value_pattern", change.pattern.is_some()), ("target_type", change.target.is_some())]
            {
                if is_given {
                    add(field, "not_an_id_type", format!("only codes of `{ID_TYPE_NAMESPACE}` have a `{field}`"));
                }
            }
        }
    }
}

fn no_such_code(deployment: &Deployment, uri: &CodeUri) -> AppError {
    let distance = |code: &LocalCode| strsim::osa_distance(&code.uri.to_string(), &uri.to_string());
    let nearest = deployment.local_codes().map(|code| (distance(code), &code.uri)).min();
    let hint = match nearest.filter(|(edits, _)| *edits <= 3) {
        Some((_, known)) => format!("; did you mean `{known}`?"),
        None => "; `daftar code list` shows what there is".to_owned(),
    };
    let message = format!("there is no local code `{uri}`{hint}");
    AppError::NotThere(FieldProblem::new("code", "unknown_code", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_vocabulary::testing::{concept_group, generation};

    #[test]
    fn suggestions_end_with_the_reported_problems() {
        let wrong: Vec<String> = ('a'..='z')
            .chain('A'..='Z')
            .map(|letter| format!("urn:svc:vocab:relationship#grandparent{letter}"))
            .collect();
        let (first, last) = wrong.split_at(30);
        let includes: Vec<&str> = first.iter().map(String::as_str).collect();
        let excludes: Vec<&str> = last.iter().map(String::as_str).collect();
        let refused = check_selections(&generation(), &concept_group("many", &includes, &excludes));
        let Err(AppError::Invalid(problems)) = refused else { panic!("{refused:?}") };
        assert_eq!(problems.len(), wrong.len(), "every wrong code is counted");
        assert!(problems.iter().all(|problem| problem.code == "unknown_code"), "{problems:?}");
        let suggested: Vec<bool> = problems.iter().map(|problem| problem.message.contains("did you mean")).collect();
        let expected: Vec<bool> = (0..wrong.len()).map(|at| at < SEARCHES_MAX).collect();
        assert_eq!(suggested, expected, "{problems:?}");
    }
}
