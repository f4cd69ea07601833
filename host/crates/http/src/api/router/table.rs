//! The table of all routes of the public listener.

use axum::http::Method;

use crate::api::endpoint::{Endpoint, endpoint, found_everywhere, server_endpoint};
use crate::api::routes::{
    consent, description, eligibility, group, group_member, group_search, individual, individual_search, preview,
    program, program_membership, token, vocabulary, workbench,
};
use crate::api::{batch, openapi as told};

/// The table. The authorization test walks it: an endpoint that the test does not know fails it.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::POST, &["/oauth/token"], token::issue, told::server::token),
        endpoint(Method::POST, &["/$batch"], batch::submit, told::batch::submit),
        endpoint(Method::GET, &["/Individual", "/individuals"], individual_search::search, told::individual::search),
        endpoint(Method::POST, &["/Individual", "/individuals"], individual::create, told::individual::create),
        endpoint(
            Method::GET,
            &["/Individual/{identifier}", "/individuals/{identifier}"],
            individual::read,
            told::individual::read,
        ),
        endpoint(
            Method::PUT,
            &["/Individual/{identifier}", "/individuals/{identifier}"],
            individual::replace,
            told::individual::replace,
        ),
        endpoint(
            Method::PATCH,
            &["/Individual/{identifier}", "/individuals/{identifier}"],
            individual::patch,
            told::individual::patch,
        ),
        endpoint(Method::GET, &["/Group", "/groups"], group_search::search, told::group::search),
        endpoint(Method::POST, &["/Group", "/groups"], group::create, told::group::create),
        endpoint(Method::PUT, &["/Group/{identifier}", "/groups/{identifier}"], group::replace, told::group::replace),
        endpoint(Method::PATCH, &["/Group/{identifier}", "/groups/{identifier}"], group::patch, told::group::patch),
        endpoint(Method::GET, &["/Group/{identifier}", "/groups/{identifier}"], group::read, told::group::read),
        endpoint(
            Method::GET,
            &["/Individual/{identifier}/groups", "/individuals/{identifier}/groups"],
            group_member::groups,
            told::individual::groups,
        ),
        endpoint(
            Method::POST,
            &["/Group/{identifier}/$add-member", "/groups/{identifier}/$add-member"],
            group_member::add,
            told::group::add_member,
        ),
        endpoint(
            Method::POST,
            &["/Group/{identifier}/$remove-member", "/groups/{identifier}/$remove-member"],
            group_member::remove,
            told::group::remove_member,
        ),
        endpoint(
            Method::PATCH,
            &["/Group/{identifier}/member/{member}", "/groups/{identifier}/member/{member}"],
            group_member::patch,
            told::group::patch_member,
        ),
        endpoint(
            Method::GET,
            &["/Group/{identifier}/membership-history", "/groups/{identifier}/membership-history"],
            group_member::history,
            told::group::membership_history,
        ),
        endpoint(Method::GET, &["/Program", "/programs"], program::search, told::program::search_programs),
        endpoint(
            Method::GET,
            &["/Program/{identifier}", "/programs/{identifier}"],
            program::read,
            told::program::read_program,
        ),
        endpoint(
            Method::GET,
            &["/ProgramMembership", "/program_memberships"],
            program_membership::search,
            told::program::search_memberships,
        ),
        endpoint(
            Method::POST,
            &["/ProgramMembership", "/program_memberships"],
            program_membership::create,
            told::program::create_membership,
        ),
        endpoint(
            Method::GET,
            &["/ProgramMembership/{identifier}", "/program_memberships/{identifier}"],
            program_membership::read,
            told::program::read_membership,
        ),
        endpoint(
            Method::PUT,
            &["/ProgramMembership/{identifier}", "/program_memberships/{identifier}"],
            program_membership::replace,
            told::program::replace_membership,
        ),
        endpoint(
            Method::GET,
            &["/Consent/{consent_id}", "/consents/{consent_id}"],
            consent::read,
            told::program::read_consent,
        ),
        endpoint(
            Method::DELETE,
            &["/Consent/{consent_id}", "/consents/{consent_id}"],
            consent::withdraw,
            told::program::withdraw_consent,
        ),
        endpoint(Method::POST, &["/Eligibility/$validate"], eligibility::validate, told::eligibility::validate),
        endpoint(Method::POST, &["/Eligibility/$evaluate"], eligibility::evaluate, told::eligibility::evaluate),
        endpoint(Method::POST, &["/Eligibility/$preview"], preview::preview, told::eligibility::preview),
        endpoint(Method::GET, &["/Vocabulary", "/vocabularies"], vocabulary::list, told::vocabulary::list),
        endpoint(
            Method::GET,
            &["/Vocabulary/$search", "/vocabularies/$search"],
            vocabulary::search_all,
            told::vocabulary::search_all,
        ),
        endpoint(
            Method::POST,
            &["/Vocabulary/$validate", "/vocabularies/$validate"],
            vocabulary::validate,
            told::vocabulary::validate,
        ),
        endpoint(
            Method::POST,
            &["/Vocabulary/$lookup", "/vocabularies/$lookup"],
            vocabulary::lookup,
            told::vocabulary::lookup,
        ),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}", "/vocabularies/{namespace}"],
            vocabulary::read,
            told::vocabulary::read,
        ),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}/codes", "/vocabularies/{namespace}/codes"],
            vocabulary::codes,
            told::vocabulary::codes,
        ),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}/codes/{code}", "/vocabularies/{namespace}/codes/{code}"],
            vocabulary::code,
            told::vocabulary::code,
        ),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}/search", "/vocabularies/{namespace}/search"],
            vocabulary::search,
            told::vocabulary::search,
        ),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}/$subsumes", "/vocabularies/{namespace}/$subsumes"],
            vocabulary::subsumes,
            told::vocabulary::subsumes,
        ),
        endpoint(Method::GET, &["/ConceptGroup", "/concept_groups"], vocabulary::list_groups, told::vocabulary::groups),
        endpoint(
            Method::GET,
            &["/ConceptGroup/{name}", "/concept_groups/{name}"],
            vocabulary::read_group,
            told::vocabulary::group,
        ),
        found_everywhere(Method::GET, "/metadata", description::metadata, told::server::metadata),
        found_everywhere(Method::GET, "/openapi.json", description::openapi, told::server::openapi),
        found_everywhere(Method::GET, "/docs", description::docs, told::server::docs),
        found_everywhere(Method::GET, "/docs/errors", description::error_list, told::server::error_list),
        found_everywhere(Method::GET, "/docs/errors/{error_code}", description::error_page, told::server::error_page),
        server_endpoint(Method::GET, "/workbench", workbench::page, told::server::workbench),
        server_endpoint(Method::GET, "/workbench/{file}", workbench::file, told::server::workbench_file),
        server_endpoint(
            Method::GET,
            "/.well-known/oauth-authorization-server",
            description::authorization_server,
            told::server::authorization_server,
        ),
        server_endpoint(Method::GET, "/health/live", description::live, told::server::live),
        server_endpoint(Method::GET, "/health/ready", description::ready, told::server::ready),
    ]
}
