use std::sync::Arc;

use crate::Operation;
use crate::record::samples;
use crate::record::setting::{SettingKind, SettingRange, drafts_of, key_bytes};
use daftar_domain::client::ClientId;
use daftar_domain::code::{Code, CodeUri, Namespace};
use daftar_domain::deployment::{RetainedConcepts, Setting, SettingKey};
use daftar_domain::local_code::{LocalCode, LocalStanding};
use daftar_domain::organization::Organization;
use daftar_domain::record::VersionId;
use daftar_domain::rule_draft::{DraftAuthor, DraftOwner, RuleDraft, RuleDraftId};

use super::*;

fn group(name: &str) -> Setting {
    Setting::ConceptGroup(daftar_domain::vocabulary::ConceptGroup { name: name.to_owned(), ..samples::concept_group() })
}

async fn put(store: &dyn Store, setting: Setting) {
    commit(store, vec![Operation::PutSetting(setting)]).await.unwrap();
}

/// Stored settings, in a fixed order.
async fn stored(store: &dyn Store) -> Vec<Setting> {
    let mut settings = store.settings().await.unwrap();
    settings.sort_by_key(Setting::key);
    settings
}

pub async fn settings_read_back_and_survive<B: Backend>() {
    let (mut backend, listener) = listening::<B>();
    let mut code = samples::local_code();
    code.updated_at = "2026-01-02T00:00:00.0009Z".parse().unwrap();
    put(backend.store(), Setting::LocalCode(code.clone())).await;
    put(backend.store(), group("b")).await;
    put(backend.store(), group("a")).await;
    put(backend.store(), Setting::RetainedConcepts(samples::retained_concepts())).await;
    let earlier = Setting::EarlierVersion(std::sync::Arc::new(samples::earlier_version()));
    put(backend.store(), earlier.clone()).await;
    let system = Setting::IdentifierSystem(samples::identifier_system());
    put(backend.store(), system.clone()).await;
    code.updated_at = "2026-01-02T00:00:00Z".parse().unwrap();
    let retained_concepts = Setting::RetainedConcepts(samples::retained_concepts());
    let expected = [Setting::LocalCode(code), group("a"), group("b"), retained_concepts, earlier, system];
    for _ in 0..2 {
        assert_eq!(stored(backend.store()).await, expected);
        reopened(&mut backend).await;
    }
    assert!(listener.0.lock().unwrap().is_empty(), "no record changed");
}

pub async fn a_setting_is_replaced_and_removed_by_its_key<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let code = samples::local_code();
    let other = LocalCode { uri: CodeUri::parse("urn:svc:vocab:id-type#farmer").unwrap(), ..code.clone() };
    put(backend.store(), Setting::LocalCode(code.clone())).await;
    put(backend.store(), Setting::LocalCode(other.clone())).await;
    let replaced_by = Some(Code::parse("passport").unwrap());
    let deprecated = LocalCode { standing: LocalStanding::Deprecated { replaced_by }, ..code.clone() };
    put(backend.store(), Setting::LocalCode(deprecated.clone())).await;
    let mut expected = [Setting::LocalCode(deprecated), Setting::LocalCode(other.clone())];
    expected.sort_by_key(Setting::key);
    assert_eq!(stored(backend.store()).await, expected);
    let remove = |key| vec![Operation::RemoveSetting(key)];
    commit(backend.store(), remove(SettingKey::LocalCode(code.uri))).await.unwrap();
    commit(backend.store(), remove(SettingKey::ConceptGroup("never".into()))).await.unwrap();
    for _ in 0..2 {
        assert_eq!(stored(backend.store()).await, [Setting::LocalCode(other.clone())]);
        reopened(&mut backend).await;
    }
}

pub async fn settings_of_one_write_are_stored_atomically<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    put(backend.store(), group("old")).await;
    let part = |part| RetainedConcepts { part, ..samples::retained_concepts() };
    let parts = (0..100).map(|number| Operation::PutSetting(Setting::RetainedConcepts(part(number))));
    let remove = Operation::RemoveSetting(SettingKey::ConceptGroup("old".into()));
    commit(backend.store(), parts.chain([remove]).collect()).await.unwrap();
    reopened(&mut backend).await;
    let numbers: Vec<u32> = stored(backend.store())
        .await
        .iter()
        .map(|setting| match setting.key() {
            SettingKey::RetainedConcepts(_, part) => part,
            other => panic!("not removed: {other:?}"),
        })
        .collect();
    assert!(numbers.into_iter().eq(0..100));
    let update = Operation::update(RecordId(9), daftar_domain::record::VersionId::FIRST, person(&["urn:x:y|1"]));
    let failing = vec![Operation::PutSetting(group("new")), update];
    assert!(commit(backend.store(), failing).await.is_err());
    assert_eq!(stored(backend.store()).await.len(), 100, "a failed write stores nothing");
}

pub async fn settings_of_similar_names_are_distinct<B: Backend>() {
    let (backend, _) = listening::<B>();
    let namespaces = ["urn:a", "urn:a:b", "urn:ab"];
    for namespace in namespaces {
        let namespace = Namespace::parse(namespace).unwrap();
        put(backend.store(), Setting::RetainedConcepts(RetainedConcepts { namespace, ..samples::retained_concepts() }))
            .await;
    }
    let found: Vec<String> = stored(backend.store())
        .await
        .into_iter()
        .map(|setting| match setting {
            Setting::RetainedConcepts(retained) => retained.namespace.to_string(),
            other => panic!("not retained codes: {other:?}"),
        })
        .collect();
    assert_eq!(found, namespaces);
}

pub async fn a_version_of_a_draft_is_added_once<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let draft = |id: u8, version: u64| {
        let id = RuleDraftId::from_bytes([id; 16]);
        Arc::new(RuleDraft { id, version: VersionId(version), ..samples::rule_draft() })
    };
    let add = |id, version| {
        let draft = draft(id, version);
        vec![
            Operation::AddSetting(Setting::RuleDraftVersion(Arc::clone(&draft))),
            Operation::PutSetting(Setting::RuleDraft(draft)),
        ]
    };
    for (id, version) in [(1, 1), (1, 2), (2, 1)] {
        commit(backend.store(), add(id, version)).await.unwrap();
    }
    for _ in 0..2 {
        let error = commit(backend.store(), add(1, 2)).await.unwrap_err();
        assert!(matches!(error, StoreError::Overtaken), "{error:?}");
        assert_eq!(stored(backend.store()).await, [], "drafts are not settings of the deployment");
        let found =
            backend.store().settings_of(SettingKind::RuleDraftVersion, SettingRange::of(&[1; 16])).await.unwrap();
        assert_eq!(found, [1, 2].map(|version| Setting::RuleDraftVersion(draft(1, version))));
        let found = backend.store().settings_of(SettingKind::RuleDraft, SettingRange::of(&[])).await.unwrap();
        assert_eq!(found, [draft(1, 2), draft(2, 1)].map(Setting::RuleDraft));
        reopened(&mut backend).await;
    }
    let id = RuleDraftId::from_bytes([1; 16]);
    let mut delete = vec![Operation::RemoveSetting(Setting::RuleDraft(draft(1, 2)).key())];
    delete.extend([1, 2].map(|version| Operation::RemoveSetting(SettingKey::RuleDraftVersion(id, VersionId(version)))));
    commit(backend.store(), delete).await.unwrap();
    commit(backend.store(), add(1, 1)).await.unwrap();
}

pub async fn drafts_of_one_owner_are_read_alone<B: Backend>() {
    let (backend, _) = listening::<B>();
    let names = ["A", "A b", "Aÿ", "B"];
    let author = |name: &str, organization: Option<&str>| DraftAuthor {
        client: ClientId::parse(name).unwrap(),
        organization: organization.map(|name| Organization::parse(name).unwrap()),
    };
    let authors =
        names.map(|name| author("A", Some(name))).into_iter().chain(["A", "B"].map(|name| author(name, None)));
    let authors: Vec<DraftAuthor> = authors.collect();
    // Identifiers at both ends of their range: an owner ends where the next one starts.
    let drafts = |author: &DraftAuthor| {
        [[0; 16], [u8::MAX; 16]].map(|id| {
            let id = RuleDraftId::from_bytes(id);
            Setting::RuleDraft(Arc::new(RuleDraft { id, author: author.clone(), ..samples::rule_draft() }))
        })
    };
    for author in &authors {
        let drafts = drafts(author);
        commit(backend.store(), drafts.map(Operation::PutSetting).to_vec()).await.unwrap();
    }
    for author in &authors {
        let prefix = drafts_of(&author.owner());
        let page = async |after: &[u8], limit| {
            let range = SettingRange { prefix: &prefix, after, limit };
            backend.store().settings_of(SettingKind::RuleDraft, range).await.unwrap()
        };
        let [first, last] = drafts(author);
        let [after_first, after_last] = [&first, &last].map(|draft| key_bytes(&draft.key()));
        assert_eq!(page(&[], 3).await, drafts(author));
        assert_eq!(page(&[], 1).await, [first]);
        assert_eq!(page(&after_first, 3).await, [last]);
        assert_eq!(page(&after_last, 3).await, []);
        assert_eq!(page(&[], 0).await, []);
        assert_eq!(backend.store().setting_count(SettingKind::RuleDraft, &prefix).await.unwrap(), 2);
    }
    let absent = drafts_of(&DraftOwner::Client(ClientId::parse("C").unwrap()));
    for (kind, prefix, count) in [
        (SettingKind::RuleDraft, &absent[..], 0),
        (SettingKind::RuleDraft, &[], 2 * authors.len()),
        (SettingKind::RuleDraft, &[u8::MAX], 0),
        (SettingKind::RuleDraftVersion, &[], 0),
    ] {
        assert_eq!(backend.store().settings_of(kind, SettingRange::of(prefix)).await.unwrap().len(), count);
        assert_eq!(backend.store().setting_count(kind, prefix).await.unwrap(), count as u64);
    }
}
