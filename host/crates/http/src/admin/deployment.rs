//! Keyed lists of the deployment's settings for codes and identifiers: `/local-codes`, `/concept-groups`,
//! `/identifier-systems`.

use axum::Json;
use axum::http::StatusCode;
use axum::routing::MethodFilter;
use serde_json::{Map, Value};

use crate::admin::resource::{Routes, act, add, change, list, show};
use crate::api::dto::reader::{ObjectReader, Problems, text_value};
use crate::state::AppState;
use daftar_api_types::admin::deployment::{
    ConceptGroupBody, IdentifierSystemBody, LocalCodeBody, Selection as Selected,
};
use daftar_domain::calendar::format_instant;
use daftar_domain::code::{CODE_BYTES_MAX, CodeUri, NAMESPACE_BYTES_MAX};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::identifier::IdentifierSystem;
use daftar_domain::identifier::{SYSTEM_BYTES_MAX, SystemUri};
use daftar_domain::local_code::{
    IdTarget, LABEL_BYTES_MAX, LABELS_MAX, LocalOrigin, LocalStanding, PATTERN_BYTES_MAX,
    PATTERN_DESCRIPTION_BYTES_MAX, REFERENCE_BYTES_MAX, ValuePattern,
};
use daftar_domain::vocabulary::{ConceptGroup, LocalizedText, Selection};
use daftar_service::deployment::{
    self, DESCRIPTION_TEXT_BYTES_MAX, LocalCodeChange, LocalCodeView, NewLocalCode, SELECTIONS_MAX,
};
use daftar_service::program::log_broken_rules;
use daftar_service::vocabulary::{DefinedBy, PublishedGroup};

/// Carriers of an ID type, with their names in bodies.
const TARGETS: &[(&str, IdTarget)] =
    &[("individual", IdTarget::Individual), ("group", IdTarget::Group), ("both", IdTarget::Both)];
/// Maximum length of the URI of a code, in bytes.
const URI_BYTES_MAX: usize = NAMESPACE_BYTES_MAX + 1 + CODE_BYTES_MAX;

/// Returns the paths of these lists.
pub fn routes() -> Routes {
    [local_codes(), concept_groups(), identifier_systems()].concat()
}

fn local_codes() -> Routes {
    let codes = list(|app: AppState| async move {
        Ok(deployment::local_codes(&app.vocabulary_publisher).await?.iter().map(local_code_body).collect())
    });
    let added = add(read_new_code, |ctx, app: AppState, new| async move {
        Ok(local_code_body(&deployment::add_local_code(&ctx, &app.vocabulary_publisher, new).await?))
    });
    let one = show(|app: AppState, uri: CodeUri| async move {
        Ok(local_code_body(&deployment::local_code(&app.vocabulary_publisher, &uri).await?))
    });
    let updated =
        change(MethodFilter::PATCH, read_code_change, |ctx, app: AppState, uri: CodeUri, change| async move {
            Ok(local_code_body(&deployment::update_local_code(&ctx, &app.vocabulary_publisher, &uri, change).await?))
        });
    let deprecated = change(MethodFilter::POST, read_deprecation, |ctx, app: AppState, uri: CodeUri, by| async move {
        Ok(local_code_body(&deployment::deprecate_local_code(&ctx, &app.vocabulary_publisher, &uri, by).await?))
    });
    vec![
        ("/local-codes", codes.merge(added)),
        ("/local-codes/{code}", one.merge(updated)),
        ("/local-codes/{code}/deprecate", deprecated),
    ]
}

/// Reads the body that adds a local code.
fn read_new_code(_: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<NewLocalCode> {
    let mut reader = ObjectReader::root(members);
    let uri = read_uri(&mut reader, "code", problems);
    if uri.is_none() && !reader.is_problem("code", problems) {
        problems.add("code", "required", "the code to add is required, written `<namespace>#<code>`");
    }
    let specialises = read_uri(&mut reader, "specialises", problems);
    let details = read_code_details(&mut reader, problems);
    reader.finish(problems);
    Some(NewLocalCode { uri: uri?, specialises, details })
}

/// Reads the body that changes a local code: an absent member is unchanged, `null` removes a reference or a pattern.
fn read_code_change(_: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<LocalCodeChange> {
    let is_null = |name: &str| members.get(name).is_some_and(Value::is_null);
    let (drops_reference, drops_pattern) = (is_null("reference"), is_null("value_pattern"));
    let mut reader = ObjectReader::root(members);
    let mut change = read_code_details(&mut reader, problems);
    reader.finish(problems);
    if drops_reference {
        change.reference = Some(None);
    }
    if drops_pattern {
        change.pattern = Some(None);
    }
    Some(change)
}

fn read_code_details(reader: &mut ObjectReader, problems: &mut Problems) -> LocalCodeChange {
    LocalCodeChange {
        labels: read_labels(reader, problems),
        reference: reader.text("reference", REFERENCE_BYTES_MAX, problems).map(Some),
        pattern: read_pattern(reader, problems).map(Some),
        target: reader.word("target_type", TARGETS, problems),
    }
}

/// Reads `{replaced_by?}`.
fn read_deprecation(_: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<Option<CodeUri>> {
    let mut reader = ObjectReader::root(members);
    let successor = read_uri(&mut reader, "replaced_by", problems);
    reader.finish(problems);
    Some(successor)
}

fn read_uri(reader: &mut ObjectReader, name: &'static str, problems: &mut Problems) -> Option<CodeUri> {
    let text = reader.text(name, URI_BYTES_MAX, problems)?;
    problems.accept(&reader.path_of(name), "invalid_code", CodeUri::parse(&text))
}

/// Reads `{<language>: <label>}`.
fn read_labels(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Vec<LocalizedText>> {
    let Value::Object(labels) = reader.take("labels")? else {
        problems.add(
            "labels",
            "wrong_type",
            "labels are an object of language and label, such as `{\"en\": \"Farmer ID\"}`",
        );
        return None;
    };
    if labels.len() > LABELS_MAX {
        problems.add("labels", "too_many", format!("at most {LABELS_MAX} labels are allowed, not {}", labels.len()));
        return None;
    }
    let read = labels.into_iter().filter_map(|(language, value)| {
        let language: String = language.chars().filter(|one| !one.is_control()).take(40).collect();
        let value = text_value(&format!("labels.{language}"), value, LABEL_BYTES_MAX, problems)?;
        Some(LocalizedText { language, value })
    });
    Some(read.collect())
}

fn read_pattern(reader: &mut ObjectReader, problems: &mut Problems) -> Option<ValuePattern> {
    let expression = reader.text("value_pattern", PATTERN_BYTES_MAX, problems);
    let description = reader.text("value_pattern_description", PATTERN_DESCRIPTION_BYTES_MAX, problems);
    match (expression, description) {
        (Some(expression), Some(description)) => {
            problems.accept("value_pattern", "invalid_pattern", ValuePattern::new(expression, description))
        }
        (Some(_), None) if !reader.is_problem("value_pattern_description", problems) => {
            let message = "describe the pattern in words: the client sees the description when a value does not match";
            problems.add("value_pattern_description", "required", message);
            None
        }
        (None, Some(_)) if !reader.is_problem("value_pattern", problems) => {
            problems.add("value_pattern", "required", "a description belongs to a pattern");
            None
        }
        (_, _) => None,
    }
}

fn local_code_body(view: &LocalCodeView) -> LocalCodeBody {
    let code = &view.code;
    let namespace = &code.uri.namespace;
    let pattern = code.id_type.as_ref().and_then(|rule| rule.pattern.as_ref());
    LocalCodeBody {
        uri: code.uri.to_string(),
        namespace: namespace.to_string(),
        code: code.uri.code.to_string(),
        local: code.origin == LocalOrigin::Deployment,
        status: match code.standing {
            LocalStanding::Active => "active".to_owned(),
            LocalStanding::Deprecated { .. } => "deprecated".to_owned(),
        },
        replaced_by: code.replaced_by().map(|code| format!("{namespace}#{code}")),
        specialises: code.specialises.as_ref().map(|code| format!("{namespace}#{code}")),
        labels: code.labels.iter().map(|label| (label.language.clone(), label.value.clone())).collect(),
        reference: code.reference.clone(),
        value_pattern: pattern.map(|pattern| pattern.expression.clone()),
        value_pattern_description: pattern.map(|pattern| pattern.description.clone()),
        target_type: code.id_type.as_ref().map(|rule| rule.target.name().to_owned()),
        active: view.is_active,
        records: view.records,
        created_at: format_instant(code.created_at),
        updated_at: format_instant(code.updated_at),
    }
}

fn concept_groups() -> Routes {
    let groups = list(|app: AppState| async move {
        Ok(app.registry.vocabularies.current().concept_groups().map(concept_group_body).collect())
    });
    let one = show(|app: AppState, name: String| async move { shown_group(&app, &name) })
        .merge(change(MethodFilter::PUT, read_concept_group, set_group))
        .merge(act(MethodFilter::DELETE, reset_group));
    vec![("/concept-groups", groups), ("/concept-groups/{name}", one)]
}

/// Defines a concept group for this deployment.
async fn set_group(
    ctx: OpContext,
    app: AppState,
    name: String,
    group: ConceptGroup,
) -> Result<ConceptGroupBody, AppError> {
    let group = ConceptGroup { name: name.clone(), ..group };
    deployment::set_concept_group(&ctx, &app.vocabulary_publisher, group).await?;
    log_broken_rules(&ctx, &app.registry, &app.engine).await;
    shown_group(&app, &name)
}

/// Removes the deployment's definition. Returns the definition that is active afterwards, if any.
async fn reset_group(ctx: OpContext, app: AppState, name: String) -> Result<Json<Option<ConceptGroupBody>>, AppError> {
    deployment::reset_concept_group(&ctx, &app.vocabulary_publisher, &name).await?;
    log_broken_rules(&ctx, &app.registry, &app.engine).await;
    Ok(Json(shown_group(&app, &name).ok()))
}

fn shown_group(app: &AppState, name: &str) -> Result<ConceptGroupBody, AppError> {
    let generation = app.registry.vocabularies.current();
    let found = generation.concept_group(name).map(concept_group_body);
    found.ok_or_else(|| {
        let known: Vec<&str> = generation.concept_groups().map(|group| group.definition().name.as_str()).collect();
        let message = format!("there is no such concept group; there are: {}", known.join(", "));
        AppError::NotThere(FieldProblem::new("name", "unknown_concept_group", message))
    })
}

/// Reads `{description?, includes: [selection], excludes?: [selection]}` without a name. A selection is `{code}` or
/// `{descendants_of}`.
fn read_concept_group(_: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<ConceptGroup> {
    let mut reader = ObjectReader::root(members);
    let description = reader.text("description", DESCRIPTION_TEXT_BYTES_MAX, problems).unwrap_or_default();
    let includes = read_selections(&mut reader, "includes", problems);
    let excludes = read_selections(&mut reader, "excludes", problems);
    reader.finish(problems);
    Some(ConceptGroup { name: String::new(), description, includes, excludes })
}

fn read_selections(reader: &mut ObjectReader, name: &'static str, problems: &mut Problems) -> Vec<Selection> {
    let items = reader.list(name, SELECTIONS_MAX, problems).unwrap_or_default();
    items.into_iter().filter_map(|(path, item)| read_selection(path, item, problems)).collect()
}

fn read_selection(path: String, item: Value, problems: &mut Problems) -> Option<Selection> {
    let mut reader = ObjectReader::at(path.clone(), item, problems);
    let code = read_uri(&mut reader, "code", problems);
    let above = read_uri(&mut reader, "descendants_of", problems);
    let is_reported = reader.is_problem("code", problems) || reader.is_problem("descendants_of", problems);
    reader.finish(problems);
    match (code, above) {
        (Some(uri), None) => Some(Selection::Code(uri)),
        (None, Some(uri)) => Some(Selection::DescendantsOf(uri)),
        (_, _) if is_reported => None,
        (_, _) => {
            problems.add(
                path,
                "invalid_selection",
                "a selection is either `{\"code\": …}` or `{\"descendants_of\": …}`",
            );
            None
        }
    }
}

fn concept_group_body(group: &PublishedGroup) -> ConceptGroupBody {
    let definition = group.definition();
    let (defined_by, plugin) = match group.defined_by() {
        DefinedBy::None => ("none", None),
        DefinedBy::Deployment => ("deployment", None),
        DefinedBy::Plugin(plugin) => ("plugin", Some(plugin.clone())),
    };
    let selected = |selection: &Selection| match selection {
        Selection::Code(uri) => Selected::Code(uri.to_string()),
        Selection::DescendantsOf(uri) => Selected::DescendantsOf(uri.to_string()),
    };
    ConceptGroupBody {
        name: definition.name.clone(),
        description: definition.description.clone(),
        defined_by: defined_by.to_owned(),
        plugin,
        is_set: !group.is_unset(),
        includes: definition.includes.iter().map(selected).collect(),
        excludes: definition.excludes.iter().map(selected).collect(),
        members: group.members().count(),
    }
}

fn identifier_systems() -> Routes {
    // The codes of the ID types, and the other registered systems.
    let systems = list(|app: AppState| async move {
        let id_types = app.registry.vocabularies.current().identifier_systems();
        let id_types = id_types.into_iter().map(|id_type| IdentifierSystemBody {
            uri: id_type.uri,
            origin: "id_type".to_owned(),
            created_at: None,
        });
        let registered = deployment::identifier_systems(&app.vocabulary_publisher);
        Ok(id_types.chain(registered.iter().map(identifier_system_body)).collect())
    });
    let added = add(read_system, |ctx, app: AppState, uri| async move {
        Ok(identifier_system_body(&deployment::add_identifier_system(&ctx, &app.vocabulary_publisher, uri).await?))
    });
    let removed = act(MethodFilter::DELETE, |ctx, app: AppState, uri: SystemUri| async move {
        deployment::remove_identifier_system(&ctx, &app.vocabulary_publisher, &uri).await?;
        Ok(StatusCode::NO_CONTENT)
    });
    vec![("/identifier-systems", systems.merge(added)), ("/identifier-systems/{uri}", removed)]
}

/// Reads `{uri}`.
fn read_system(_: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<SystemUri> {
    let mut reader = ObjectReader::root(members);
    let text = reader.text("uri", SYSTEM_BYTES_MAX, problems);
    if text.is_none() && !reader.is_problem("uri", problems) {
        problems.add("uri", "required", "an identifier system has a URI, such as `https://example.org/farmer-id`");
    }
    reader.finish(problems);
    problems.accept("uri", "invalid_identifier", SystemUri::parse(&text?))
}

fn identifier_system_body(system: &IdentifierSystem) -> IdentifierSystemBody {
    let created_at = Some(format_instant(system.created_at));
    IdentifierSystemBody { uri: system.uri.to_string(), origin: "registered".to_owned(), created_at }
}
