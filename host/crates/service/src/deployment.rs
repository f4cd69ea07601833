//! The operations on the keyed lists of the deployment: concept groups, identifier systems, and local codes.
//!
//! **Invariant:** every code of a group that is set is known when it is set. The deployment's definition wins over a pack's.
//!
//! **Invariant:** identifiers in records stay valid, also after the removal of their system: it only says which new ones may
//! be given.
//!
//! **Invariant:** a local code is added once, changed in what it is called and in the pattern of its values, and deprecated; it is never
//! deleted, and its code never changes its meaning.

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

/// With how many problems the search for what was meant by wrong codes ends.
const SEARCHES_MAX: usize = 50;

/// Defines a concept group for this deployment, in place of any pack's definition.
///
/// # Errors
/// [`AppError::Invalid`] with every selection that is not right, [`AppError::Conflict`] when there is no space, or when
/// the store fails.
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

/// Takes the deployment's definition back: the pack's counts again, or none.
///
/// # Errors
/// [`AppError::NotThere`] when the deployment defines no such group, or when the store fails.
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
            // A group with very many wrong codes is a mistake of another kind, and each search for what was meant takes
            // its time.
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

/// As much of a name as is repeated.
fn shown(name: &str) -> String {
    name.chars().filter(|one| !one.is_control()).take(64).collect()
}

/// Registers a system.
///
/// # Errors
/// [`AppError::Invalid`] for a code of the ID types, [`AppError::Conflict`] when it is registered already or there is
/// no space, or when the store fails.
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

/// Takes a system out: no new identifiers may be of it; those that records carry stay.
///
/// # Errors
/// [`AppError::NotThere`] when it is not registered, or when the store fails.
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

/// A local code to be added.
#[derive(Debug, Clone)]
pub struct NewLocalCode {
    /// Which code.
    pub uri: CodeUri,
    /// The code of the same vocabulary that it is a kind of.
    pub specialises: Option<CodeUri>,
    /// Its name, which is required, and the rest of what can be changed later.
    pub details: LocalCodeChange,
}

/// Changes of a local code; absent members stay.
#[derive(Debug, Clone, Default)]
pub struct LocalCodeChange {
    /// All labels: what it is called.
    pub labels: Option<Vec<LocalizedText>>,
    /// A reference with more information, or none.
    pub reference: Option<Option<String>>,
    /// The pattern of values, or none; only for ID types.
    pub pattern: Option<Option<ValuePattern>>,
    /// Kind of record with such identifiers; only for ID types.
    pub target: Option<IdTarget>,
}

/// A local code with how much it is used.
#[derive(Debug, Clone)]
pub struct LocalCodeView {
    /// The code.
    pub code: LocalCode,
    /// True if its vocabulary is active and has it.
    pub is_active: bool,
    /// Number of records with it in a coded field; none for an ID type, which is in no coded field.
    pub records: Option<u64>,
}

/// Adds a local code.
///
/// # Errors
/// [`AppError::Invalid`] with everything that is wrong, [`AppError::Conflict`] when the code is there already or the limit
/// is reached, or when the store fails.
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

/// Changes what a local code is called or how its values look.
///
/// # Errors
/// [`AppError::NotThere`], [`AppError::Invalid`] with everything that is wrong, or when the store fails.
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

/// Sets a local code, or one of a starter set, inactive permanently: new records are refused it, old ones keep it. A
/// successor that was named before stays unless another is named.
///
/// # Errors
/// [`AppError::NotThere`], [`AppError::Conflict`] for a code that belongs to its vocabulary's owner,
/// [`AppError::Invalid`] for a successor that cannot be one, or when the store fails.
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
            // A stored value stays.
            None => code.replaced_by().cloned(),
        };
        code.standing = LocalStanding::Deprecated { replaced_by };
        code.updated_at = now;
        Ok(Decision::Put(Box::new(Setting::LocalCode(code))))
    };
    publisher.decide(ctx, uri.to_string(), "local code deprecated", decide).await?;
    local_code(publisher, uri).await
}

/// Every local code, by URI.
///
/// # Errors
/// If the store fails.
pub async fn local_codes(publisher: &VocabularyPublisher) -> Result<Vec<LocalCodeView>, AppError> {
    let deployment = publisher.deployment();
    let registry = publisher.registry();
    let generation = registry.vocabularies.current();
    let numbers: Vec<CodeNumber> =
        deployment.local_codes().filter_map(|code| generation.number_of(&code.uri)).collect();
    let held = registry.index.records_by_code(&numbers).await?;
    let records = |code: &LocalCode| {
        let number = generation.number_of(&code.uri);
        number.and_then(|number| held.get(&number)).copied().unwrap_or_default()
    };
    Ok(deployment.local_codes().map(|code| local_code_view(&generation, code, records(code))).collect())
}

/// One local code.
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
    Ok(registry.index.records_using(&[number]).await?)
}

/// The code as it will be stored, if it is valid.
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

/// The vocabulary of a namespace, if it takes local codes.
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

/// The deployment's default for a code of a starter set.
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

/// Puts into a local code what is valid of a change, and adds what is not to the problems.
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
