//! What the administrator does with codes of the deployment's own.
//!
//! **Invariant:** a local code is added once, changed in what it is called and how its values look, and set aside; it is never
//! deleted, and its code never comes to mean something else.

use crate::vocabulary_publisher::{Decision, VocabularyPublisher};
use daftar_domain::code::{Code, CodeNumber, CodeUri, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{Deployment, Setting};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::local_code::{
    EXTENSIBLE_NAMESPACES, IdTarget, IdTypeRule, LOCAL_CODES_MAX, LocalCode, LocalOrigin, LocalStanding, ValuePattern,
    check_labels, check_reference, parse_code,
};
use daftar_domain::vocabulary::{ConceptStatus, ID_TYPE_NAMESPACE, LocalizedText};
use daftar_vocabulary::{ConceptRef, Generation, Vocabulary, check_pattern};

/// A local code to be added.
#[derive(Debug, Clone)]
pub struct NewLocalCode {
    /// Which code.
    pub uri: CodeUri,
    /// The code of the same vocabulary that it is a kind of.
    pub specialises: Option<CodeUri>,
    /// What it is called.
    pub labels: Vec<LocalizedText>,
    /// Where more is said about it.
    pub reference: Option<String>,
    /// What values look like; only for ID types.
    pub pattern: Option<ValuePattern>,
    /// What carries such identifiers; only for ID types.
    pub target: Option<IdTarget>,
}

/// What is to be changed about a local code; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct LocalCodeChange {
    /// All labels anew.
    pub labels: Option<Vec<LocalizedText>>,
    /// Another reference, or none.
    pub reference: Option<Option<String>>,
    /// Another pattern, or none.
    pub pattern: Option<Option<ValuePattern>>,
    /// Another target.
    pub target: Option<IdTarget>,
}

/// A local code with how much it is used.
#[derive(Debug, Clone)]
pub struct LocalCodeView {
    /// The code.
    pub code: LocalCode,
    /// Whether its vocabulary is in force and has it.
    pub is_in_force: bool,
    /// How many records hold it in a coded field; none for an ID type, which stands in no coded field.
    pub records: Option<u64>,
}

/// Adds a local code.
///
/// # Errors
/// [`AppError::Invalid`] with everything that is wrong, [`AppError::Conflict`] when the code is there already or there is no
/// room, or when the store fails.
pub async fn add(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    new: NewLocalCode,
) -> Result<LocalCodeView, AppError> {
    let uri = new.uri.clone();
    let (now, records) = (ctx.now, records_of(publisher, &uri).await?);
    let decide = move |deployment: &Deployment, generation: &Generation| {
        let code = checked(new, deployment, generation, records, now)?;
        Ok(Decision::Put(Box::new(Setting::LocalCode(code))))
    };
    publisher.decide(ctx, uri.to_string(), "local code added", decide).await?;
    show(publisher, &uri).await
}

/// Changes what a local code is called or how its values look.
///
/// # Errors
/// [`AppError::NotThere`], [`AppError::Invalid`] with everything that is wrong, or when the store fails.
pub async fn update(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    uri: &CodeUri,
    change: LocalCodeChange,
) -> Result<LocalCodeView, AppError> {
    let (changed, now) = (uri.clone(), ctx.now);
    let decide = move |deployment: &Deployment, _: &Generation| {
        let mut code = own(deployment, &changed)?.clone();
        apply(&mut code, change)?;
        code.updated_at = now;
        Ok(Decision::Put(Box::new(Setting::LocalCode(code))))
    };
    publisher.decide(ctx, uri.to_string(), "local code changed", decide).await?;
    show(publisher, uri).await
}

/// Sets a local code, or one of a starter set, aside for good: new records are refused it, old ones keep it. A successor that was
/// named before stays unless another is named.
///
/// # Errors
/// [`AppError::NotThere`], [`AppError::Conflict`] for a code that belongs to its vocabulary's owner, [`AppError::Invalid`] for a
/// successor that cannot be one, or when the store fails.
pub async fn deprecate(
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
            // Said before, it stays said.
            None => code.replaced_by().cloned(),
        };
        code.standing = LocalStanding::Deprecated { replaced_by };
        code.updated_at = now;
        Ok(Decision::Put(Box::new(Setting::LocalCode(code))))
    };
    publisher.decide(ctx, uri.to_string(), "local code deprecated", decide).await?;
    show(publisher, uri).await
}

/// Every local code, by URI.
///
/// # Errors
/// When the store fails.
pub async fn list(publisher: &VocabularyPublisher) -> Result<Vec<LocalCodeView>, AppError> {
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
    Ok(deployment.local_codes().map(|code| view(&generation, code, records(code))).collect())
}

/// One local code.
///
/// # Errors
/// [`AppError::NotThere`].
pub async fn show(publisher: &VocabularyPublisher, uri: &CodeUri) -> Result<LocalCodeView, AppError> {
    let deployment = publisher.deployment();
    let code = deployment.local_code(uri).ok_or_else(|| not_there(&deployment, uri))?;
    let generation = publisher.registry().vocabularies.current();
    Ok(view(&generation, code, records_of(publisher, uri).await?))
}

fn view(generation: &Generation, code: &LocalCode, records: u64) -> LocalCodeView {
    let is_in_force = concept(generation, &code.uri).is_some();
    LocalCodeView { code: code.clone(), is_in_force, records: code.id_type.is_none().then_some(records) }
}

async fn records_of(publisher: &VocabularyPublisher, uri: &CodeUri) -> Result<u64, AppError> {
    let registry = publisher.registry();
    let Some(number) = registry.vocabularies.current().number_of(uri) else { return Ok(0) };
    Ok(registry.index.records_using(&[number]).await?)
}

/// The code as it will be kept, if nothing is wrong with it.
fn checked(
    new: NewLocalCode,
    deployment: &Deployment,
    generation: &Generation,
    records: u64,
    now: jiff::Timestamp,
) -> Result<LocalCode, AppError> {
    let vocabulary = extensible(generation, &new.uri.namespace)?;
    let mut problems = Vec::new();
    let mut add = |field: &str, code, message: String| {
        problems.push(FieldProblem { field: field.to_owned(), code, message });
    };
    if let Err(error) = parse_code(new.uri.code.as_str()) {
        add("code", "invalid", error.to_string());
    }
    if let Err(error) = check_labels(&new.labels) {
        add("labels", "invalid", error.to_string());
    }
    if let Some(Err(error)) = new.reference.as_deref().map(check_reference) {
        add("reference", "invalid", error.to_string());
    }
    if let Some(parent) = &new.specialises {
        match check_sibling(generation, &new.uri, parent) {
            Ok(concept) if concept.status() == ConceptStatus::Active => {}
            Ok(_) => add("specialises", "inactive_code", format!("`{parent}` is no longer in use")),
            Err(problem) => add("specialises", problem.code, problem.message),
        }
    }
    let is_id_type = new.uri.namespace.as_str() == ID_TYPE_NAMESPACE;
    for (field, is_given) in [("value_pattern", new.pattern.is_some()), ("target_type", new.target.is_some())] {
        if is_given && !is_id_type {
            add(field, "not_an_id_type", format!("only codes of `{ID_TYPE_NAMESPACE}` have a `{field}`"));
        }
    }
    if let Some(Err(reason)) = new.pattern.as_ref().map(check_pattern) {
        add("value_pattern", "invalid_pattern", format!("the pattern is refused: {reason}"));
    }
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    refuse_known(vocabulary, &new.uri)?;
    if deployment.local_code(&new.uri).is_some() || records > 0 {
        let message =
            format!("`{}` was a code here before and is never given another meaning; choose another", new.uri);
        return Err(AppError::Conflict(ErrorCode::AlreadyExists, message));
    }
    if deployment.local_codes().len() >= LOCAL_CODES_MAX {
        let message = format!("there are {LOCAL_CODES_MAX} local codes, and no more are kept");
        return Err(AppError::Conflict(ErrorCode::LimitReached, message));
    }
    let rule = IdTypeRule { pattern: new.pattern, target: new.target.unwrap_or_default() };
    Ok(LocalCode {
        uri: new.uri,
        origin: LocalOrigin::Deployment,
        specialises: new.specialises.map(|parent| parent.code),
        labels: new.labels,
        reference: new.reference,
        id_type: is_id_type.then_some(rule),
        standing: LocalStanding::Active,
        created_at: now,
        updated_at: now,
    })
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
        return Err(FieldProblem { field: String::new(), code: "wrong_vocabulary", message });
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

/// The deployment's word on a code of a starter set, as long as it has said none.
fn starter(generation: &Generation, uri: &CodeUri, now: jiff::Timestamp) -> Result<LocalCode, AppError> {
    let concept = generation.check_known(uri).map_err(|problem| AppError::NotThere(problem.at("code")))?;
    let is_extensible = EXTENSIBLE_NAMESPACES.contains(&uri.namespace.as_str());
    if !is_extensible || !concept.is_starter() {
        let message =
            format!("`{uri}` belongs to its vocabulary's owner and is read-only; only local codes are deprecated");
        return Err(AppError::Conflict(ErrorCode::Conflict, message));
    }
    Ok(LocalCode {
        uri: uri.clone(),
        origin: LocalOrigin::StarterSet,
        specialises: None,
        labels: Vec::new(),
        reference: None,
        id_type: None,
        standing: LocalStanding::Active,
        created_at: now,
        updated_at: now,
    })
}

/// A local code of the deployment's own.
fn own<'a>(deployment: &'a Deployment, uri: &CodeUri) -> Result<&'a LocalCode, AppError> {
    let code = deployment.local_code(uri).ok_or_else(|| not_there(deployment, uri))?;
    match code.origin {
        LocalOrigin::Deployment => Ok(code),
        LocalOrigin::StarterSet => {
            let message = format!("`{uri}` comes with a pack; it can be deprecated, not changed");
            Err(AppError::Conflict(ErrorCode::Conflict, message))
        }
    }
}

fn apply(code: &mut LocalCode, change: LocalCodeChange) -> Result<(), AppError> {
    let mut problems = Vec::new();
    let mut add = |field: &str, code, message: String| {
        problems.push(FieldProblem { field: field.to_owned(), code, message });
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
            if change.pattern.is_some() || change.target.is_some() {
                let message = format!("only codes of `{ID_TYPE_NAMESPACE}` have a pattern and a target type");
                add("value_pattern", "not_an_id_type", message);
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(AppError::Invalid(problems)) }
}

fn concept<'a>(generation: &'a Generation, uri: &CodeUri) -> Option<ConceptRef<'a>> {
    generation.check_known(uri).ok()
}

fn not_there(deployment: &Deployment, uri: &CodeUri) -> AppError {
    let distance = |code: &LocalCode| strsim::osa_distance(&code.uri.to_string(), &uri.to_string());
    let nearest = deployment.local_codes().map(|code| (distance(code), &code.uri)).min();
    let hint = match nearest.filter(|(edits, _)| *edits <= 3) {
        Some((_, known)) => format!("; did you mean `{known}`?"),
        None => "; `daftar code list` shows what there is".to_owned(),
    };
    let message = format!("there is no local code `{uri}`{hint}");
    AppError::NotThere(FieldProblem { field: "code".to_owned(), code: "unknown_code", message })
}
