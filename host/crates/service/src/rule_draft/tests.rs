//! The limit of drafts.

use super::*;
use daftar_domain::audit::Actor;
use daftar_domain::client::ClientId;
use daftar_domain::context::RandomIds;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::organization::Organization;
use daftar_domain::subject::Subject;
use daftar_store_sled::testing::shared_store;

/// The context of a client.
fn context(client: &str, organization: Option<&str>) -> OpContext {
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    let actor = Actor::Client(ClientId::parse(client).unwrap());
    let organization = organization.map(|name| Organization::parse(name).unwrap());
    OpContext { organization, ..OpContext::unbound(actor, "test".into(), now, AuditContext::default()) }
}

fn content() -> DraftContent {
    DraftContent {
        name: "Pension".to_owned(),
        expression: String::new(),
        subject: Subject::Individual,
        comment: None,
        program: None,
        engine: None,
        cases: None,
        as_of: None,
    }
}

#[tokio::test]
async fn an_owner_has_as_many_drafts_as_the_limit() {
    let registry = Registry::of_store(&shared_store());
    let create = async |ctx: &OpContext| create(ctx, &registry, &RandomIds, content()).await;
    let colleagues = ["one", "two"].map(|client| context(client, Some("Ministry")));
    for owner in [&colleagues[0], &context("alone", None)] {
        let first = create(owner).await.unwrap();
        // All but the last, in one write.
        let copies = (2..RULE_DRAFTS_MAX).map(|number| {
            let id = RuleDraftId::from_bytes(u128::from(number).to_be_bytes());
            Operation::PutSetting(Setting::RuleDraft(Arc::new(RuleDraft { id, ..RuleDraft::clone(&first) })))
        });
        let entry = entry(owner, AuditAction::Create, AuditOutcome::Allowed, first.id);
        registry.store.commit(records::write(owner, copies.collect(), entry)).await.unwrap();
        let last = create(owner).await.unwrap();
        let refused = create(owner).await.unwrap_err();
        assert!(matches!(refused, AppError::Conflict(ErrorCode::LimitReached, _)), "{refused:?}");
        let page = Page { offset: RULE_DRAFTS_MAX - 2, count: 10 };
        let found = search(owner, &registry, &DraftQuery::default(), page).await.unwrap();
        assert_eq!((found.total, found.drafts.len()), (RULE_DRAFTS_MAX, 2));
        delete(owner, &registry, last.id, &VersionCondition::Any).await.unwrap();
        create(owner).await.unwrap();
    }
    assert!(create(&colleagues[1]).await.is_err(), "clients of an organization share the limit");
    for other in [context("one", Some("Ministry of Health")), context("one", None)] {
        create(&other).await.unwrap();
        let found = search(&other, &registry, &DraftQuery::default(), Page::default()).await.unwrap();
        assert_eq!((found.total, found.drafts.len()), (1, 1));
    }
}
