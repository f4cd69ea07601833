//! `/Program`, `/ProgramMembership` and `/Consent`

use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};

use super::record::{path_part, tagged};
use super::record_search::Search;
use crate::api::access::{Auth, scope};
use crate::api::dto::field::words;
use crate::api::dto::reader::Problems;
use crate::api::dto::record::{self as body, Purpose, named};
use crate::api::endpoint::BASE_PATH;
use crate::api::error::{ApiError, ApiResult};
use crate::api::extract::accept::IfMatch;
use crate::api::extract::body::JsonObject;
use crate::api::extract::filters;
use crate::api::extract::path::{IdPath, IdentifierPath};
use crate::api::extract::query::{NoParameters, Parameters, reference, subject_reference};
use crate::state::AppState;
use daftar_domain::consent::ConsentRecord;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program::ProgramPhase;
use daftar_domain::program_membership::{BENEFICIARY, MembershipStatus, PROGRAM};
use daftar_domain::record::RecordKind;
use daftar_domain::scope::Resource;
use daftar_domain::subject::Subject;
use daftar_service::program::{self, ProgramQuery};
use daftar_service::program_membership::{self, MembershipAddress, MembershipDraft, MembershipQuery, MembershipView};
use daftar_service::search::check_fields;
use daftar_service::written::UpdateMode;
use daftar_service::{consent, records};

const PHASES: &[(&str, ProgramPhase)] =
    &[("upcoming", ProgramPhase::Upcoming), ("current", ProgramPhase::Current), ("ended", ProgramPhase::Ended)];

/// Reads one program by identifier.
pub async fn read(call: Auth<scope::ProgramRead>, IdentifierPath(key): IdentifierPath, _: NoParameters) -> ApiResult {
    let program = program::read(&call.ctx, &call.app.registry, &key).await?;
    Ok(tagged(StatusCode::OK, &program.record.meta, body::program(&program.record, &program.fields)))
}

/// The filters, each with the field of the record that it checks; none if no field permission is required.
const FILTERS: [(&str, Option<&str>); 5] = [
    ("identifier", None),
    ("name", Some("name")),
    ("active", Some("active")),
    ("target_type", Some("target_type")),
    ("status", Some("period")),
];
/// Searches programs.
pub async fn search(call: Auth<scope::ProgramSearch>, parameters: Parameters) -> ApiResult {
    let names = FILTERS.map(|(name, _)| name);
    let search = Search::read((&call.app, &call.ctx), parameters, RecordKind::Program, &names)?;
    let field_of = |name: &str| FILTERS.iter().find(|(known, _)| *known == name)?.1.map(str::to_owned);
    let inspected: Vec<String> = search.parameters.names().filter_map(field_of).collect();
    program::check_search(&call.ctx, &inspected, &search.paging)?;
    let conditions = read_conditions(&search.parameters)?;
    let page = program::search(&call.ctx, &call.app.registry, conditions, &search.paging).await?;
    search.response(&page, |program| body::program(&program.record, &program.fields))
}

/// The filters of a search.
///
/// # Errors
/// 400 naming the parameter.
pub fn read_conditions(parameters: &Parameters) -> ApiResult<ProgramQuery> {
    Ok(ProgramQuery {
        identifiers: filters::identifiers(parameters, "identifier")?,
        name_words: filters::words(parameters, "name")?,
        active: parameters.boolean("active")?,
        target_type: parameters.word("target_type", &words::<Subject>())?,
        phase: parameters.word("status", PHASES)?,
        last_updated: filters::last_updated(parameters)?,
    })
}

/// Reads one membership, by its own identifier or the beneficiary's.
pub async fn read_membership(
    call: Auth<scope::ProgramMembershipRead>,
    IdentifierPath(key): IdentifierPath,
    parameters: Parameters,
) -> ApiResult {
    let address = address(key, &parameters)?;
    let view = program_membership::read(&call.ctx, &call.app.registry, &address).await?;
    Ok(tagged(StatusCode::OK, &view.membership.meta, body::membership(&view)))
}

/// The filters, each of which checks the field of its name.
const MEMBERSHIP_FILTERS: [&str; 3] = ["beneficiary", "program", "status"];

/// Searches memberships.
pub async fn search_memberships(call: Auth<scope::ProgramMembershipSearch>, parameters: Parameters) -> ApiResult {
    let search = Search::read((&call.app, &call.ctx), parameters, RecordKind::ProgramMembership, &MEMBERSHIP_FILTERS)?;
    let inspected = search.parameters.names().filter(|name| MEMBERSHIP_FILTERS.contains(name)).map(str::to_owned);
    let inspected: Vec<String> = inspected.collect();
    check_fields(&call.ctx, Resource::ProgramMembership, &inspected, &search.paging.sort)?;
    let conditions = read_membership_conditions(&search.parameters)?;
    let page = program_membership::search(&call.ctx, &call.app.registry, conditions, &search.paging).await?;
    search.response(&page, body::membership)
}

/// Enrols a beneficiary.
pub async fn create_membership(
    call: Auth<scope::ProgramMembershipCreate>,
    _: NoParameters,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let draft = Problems::of(|problems| body::read_membership(members, Purpose::Create, problems))?;
    let sent = sent(&draft);
    let view = program_membership::create(&call.ctx, &call.app.registry, &call.app.engine, draft).await?;
    Ok(membership_answer(&call.app, StatusCode::CREATED, &view, sent.as_ref()))
}

/// Replaces a membership.
pub async fn replace_membership(
    call: Auth<scope::ProgramMembershipUpdate>,
    IdentifierPath(key): IdentifierPath,
    (parameters, IfMatch(condition)): (Parameters, IfMatch),
    JsonObject(members): JsonObject,
) -> ApiResult {
    let address = address(key, &parameters)?;
    let spoken = UpdateMode::Replace(named(Resource::ProgramMembership, &members));
    let make = |present: &MembershipView, written: &FieldSet| {
        let members = body::with_persisted(present, written, &members)?;
        Problems::of(|problems| body::read_membership(members, Purpose::Replace, problems))
    };
    let conditions = (&condition, &spoken);
    let view =
        program_membership::replace(&call.ctx, &call.app.registry, &call.app.engine, &address, conditions, &make)
            .await?;
    Ok(membership_answer(&call.app, StatusCode::OK, &view, None))
}

/// The beneficiary and the program named in a request for a new membership.
fn sent(draft: &MembershipDraft) -> Option<MembershipAddress> {
    let (beneficiary, program) = (draft.get(BENEFICIARY)?, draft.get(PROGRAM)?);
    Some(MembershipAddress { key: beneficiary.id.clone(), program: Some(program.id.clone()) })
}

/// The response to a write; `sent` is the beneficiary and the program in a request for a new membership.
pub(in crate::api) fn membership_answer(
    app: &AppState,
    status: StatusCode,
    view: &MembershipView,
    sent: Option<&MembershipAddress>,
) -> Response {
    let location = (status == StatusCode::CREATED).then(|| membership_location(app, view, sent)).flatten();
    let location = location.map(|location| (header::LOCATION, location));
    (AppendHeaders(location), tagged(status, &view.membership.meta, body::membership(view))).into_response()
}

/// The URL of a new membership: by its own identifier, or by the beneficiary's within the program. A client that does
/// not see their identifiers gets those of its request; if these are no longer valid there is no URL.
fn membership_location(app: &AppState, view: &MembershipView, sent: Option<&MembershipAddress>) -> Option<String> {
    let base = format!("{}{BASE_PATH}/{}", app.public_url, RecordKind::ProgramMembership);
    if let Some(own) = records::called(&view.membership.details.identifiers) {
        return Some(format!("{base}/{}", path_part(&own.reveal())));
    }
    let (key, program) = if view.fields.allows("beneficiary") && view.fields.allows("program") {
        let key = view.beneficiary.split_once('/').map_or(view.beneficiary.as_str(), |(_, key)| key);
        (key.to_owned(), view.program.clone())
    } else {
        let sent = sent?;
        (sent.key.reveal(), records::reference(RecordKind::Program, sent.program.as_ref()?))
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("program", &program);
    Some(format!("{base}/{}?{}", path_part(&key), query.finish()))
}

fn address(key: IdentifierKey, parameters: &Parameters) -> ApiResult<MembershipAddress> {
    parameters.expect_only(&["program"])?;
    let program = parameters.one("program")?;
    let program =
        program.map(|text| Ok::<_, ApiError>(reference("program", text, &[RecordKind::Program])?.1)).transpose()?;
    Ok(MembershipAddress { key, program })
}

fn read_membership_conditions(parameters: &Parameters) -> ApiResult<MembershipQuery> {
    let last_updated = filters::last_updated(parameters)?;
    let mut query = MembershipQuery { last_updated, ..MembershipQuery::default() };
    for text in parameters.all("beneficiary") {
        query.beneficiaries.push(subject_reference("beneficiary", text)?);
    }
    for text in parameters.all("program") {
        query.programs.push(reference("program", text, &[RecordKind::Program])?.1);
    }
    query.statuses.extend(parameters.word("status", &words::<MembershipStatus>())?);
    Ok(query)
}

/// Reads a consent given to the client's organization.
pub async fn read_consent(
    call: Auth<scope::ConsentRead>,
    IdPath(id): IdPath<ConsentRecord>,
    _: NoParameters,
) -> ApiResult {
    let view = consent::read(&call.ctx, &call.app.registry, id).await?;
    Ok(tagged(StatusCode::OK, &view.consent.meta, body::consent(&view)))
}

/// Withdraws a consent; a repeated call changes nothing and returns the same response.
pub async fn withdraw_consent(
    call: Auth<scope::ConsentDelete>,
    IdPath(id): IdPath<ConsentRecord>,
    _: NoParameters,
    IfMatch(condition): IfMatch,
) -> ApiResult<StatusCode> {
    consent::withdraw(&call.ctx, &call.app.registry, id, &condition).await?;
    Ok(StatusCode::NO_CONTENT)
}
