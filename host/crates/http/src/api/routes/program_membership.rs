//! `/ProgramMembership`

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};

use super::individual::{etag, path_part};
use super::record_search::{Search, Searchable};
use crate::api::access::{Auth, scope};
use crate::api::dto::field::words;
use crate::api::dto::merge::named;
use crate::api::dto::reader::Problems;
use crate::api::dto::record as body;
use crate::api::dto::record::Purpose;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::ApiError;
use crate::api::extract::accept::IfMatch;
use crate::api::extract::body::JsonObject;
use crate::api::extract::filters;
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{NoParameters, Parameters, RawQuery, reference, subject_reference};
use crate::state::AppState;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::{BENEFICIARY, MembershipStatus, PROGRAM};
use daftar_domain::record::RecordKind;
use daftar_domain::scope::Resource;
use daftar_service::program_membership::{MembershipAddress, MembershipDraft, MembershipQuery, MembershipView};
use daftar_service::written::Spoken;
use daftar_service::{program_membership, records};

/// Reads one membership, by its own identifier or the beneficiary's.
pub async fn read(
    auth: Auth<scope::ProgramMembershipRead>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let address = address(key, &query)?;
    let ctx = auth.into_context();
    let view = program_membership::read(&ctx, &app.registry, &address).await?;
    Ok(([(header::ETAG, etag(&view.membership.meta))], Json(body::membership(&view))).into_response())
}

/// The filters, each of which looks at the field of its name.
const FILTERS: [&str; 3] = ["beneficiary", "program", "status"];

/// Searches memberships.
pub async fn search(
    auth: Auth<scope::ProgramMembershipSearch>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let of = Searchable { kind: RecordKind::ProgramMembership, filters: &FILTERS };
    let search = Search::read(&app, &ctx, &query, &of)?;
    let looked_at = search.parameters.names().filter(|name| FILTERS.contains(name)).map(str::to_owned);
    program_membership::check_search(&ctx, &looked_at.collect::<Vec<_>>(), &search.paging)?;
    let conditions = read_conditions(&search.parameters)?;
    let page = program_membership::search(&ctx, &app.registry, conditions, &search.paging).await?;
    search.answer(&app, &ctx, &page, body::membership)
}

/// Enrols a beneficiary.
pub async fn create(
    auth: Auth<scope::ProgramMembershipCreate>,
    State(app): State<AppState>,
    _: NoParameters,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let mut problems = Problems::default();
    let draft = body::read_membership(members, Purpose::Create, &mut problems);
    let draft = problems.finish(draft)?;
    let sent = sent(&draft);
    let view = program_membership::create(&ctx, &app.registry, &app.engine, draft).await?;
    Ok(answer(&app, StatusCode::CREATED, &view, sent.as_ref()))
}

/// Replaces what a membership says.
pub async fn replace(
    auth: Auth<scope::ProgramMembershipUpdate>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    (RawQuery(query), IfMatch(condition)): (RawQuery, IfMatch),
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    let address = address(key, &query)?;
    let ctx = auth.into_context();
    let spoken = Spoken::Whole(named(Resource::ProgramMembership, &members));
    let make = |present: &MembershipView, written: &FieldSet| {
        let mut problems = Problems::default();
        let members = body::with_kept(present, written, &members)?;
        let draft = body::read_membership(members, Purpose::Replace, &mut problems);
        problems.finish(draft)
    };
    let conditions = (&condition, &spoken);
    let view = program_membership::replace(&ctx, &app.registry, &app.engine, &address, conditions, &make).await?;
    Ok(answer(&app, StatusCode::OK, &view, None))
}

/// What a request for a new membership calls its beneficiary and its program.
fn sent(draft: &MembershipDraft) -> Option<MembershipAddress> {
    let (beneficiary, program) = (draft.get(BENEFICIARY)?, draft.get(PROGRAM)?);
    Some(MembershipAddress { key: beneficiary.id.clone(), program: Some(program.id.clone()) })
}

/// The answer to a write; `sent` is what a request for a new membership called its beneficiary and its program.
pub(in crate::api) fn answer(
    app: &AppState,
    status: StatusCode,
    view: &MembershipView,
    sent: Option<&MembershipAddress>,
) -> Response {
    let tag = [(header::ETAG, etag(&view.membership.meta))];
    let location = (status == StatusCode::CREATED).then(|| location(app, view, sent)).flatten();
    let location = location.map(|location| (header::LOCATION, location));
    (status, tag, AppendHeaders(location), Json(body::membership(view))).into_response()
}

/// The URL of a new membership: by its own identifier, or by the beneficiary's within the program. What these are called is told
/// to whoever sees it; to others they are what the request called them, and where it is not known any more there is no URL.
fn location(app: &AppState, view: &MembershipView, sent: Option<&MembershipAddress>) -> Option<String> {
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

fn address(key: IdentifierKey, query: &str) -> Result<MembershipAddress, ApiError> {
    let parameters = Parameters::parse(query)?;
    parameters.expect_only(&["program"])?;
    let program = parameters.one("program")?;
    let program =
        program.map(|text| Ok::<_, ApiError>(reference("program", text, &[RecordKind::Program])?.1)).transpose()?;
    Ok(MembershipAddress { key, program })
}

fn read_conditions(parameters: &Parameters) -> Result<MembershipQuery, ApiError> {
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
