//! Vocabulary packs of interface version 0.1.0.

use wasmtime::Store;
use wasmtime::component::{Func, InstancePre};

use super::Functions;
use crate::domain::code::{Code, Namespace};
use crate::domain::vocabulary::{Concept, ConceptGroup, VocabularyDescription};
use crate::plugin::bindings::pack::exports::daftar::plugin::vocabulary as wire;
use crate::plugin::sandbox::{CallError, HostState};
use crate::plugin::wit::{ConceptPage, latest};

/// A pack, ready to be instantiated.
#[derive(Clone)]
pub(in crate::plugin) struct Linked(Functions<4>);

impl Linked {
    pub fn new(pre: InstancePre<HostState>) -> wasmtime::Result<Self> {
        let names = ["describe", "concept-groups", "concepts", "resolve"];
        Functions::find(pre, "daftar:plugin/vocabulary@0.1.0", names).map(Self)
    }

    pub fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<Pack> {
        let [describe, concept_groups, concepts, resolve] = self.0.instantiate(store)?;
        Ok(Pack { describe, concept_groups, concepts, resolve })
    }
}

/// An instance of a pack.
pub(in crate::plugin) struct Pack {
    describe: Func,
    concept_groups: Func,
    concepts: Func,
    resolve: Func,
}

impl Pack {
    pub fn describe(&self, store: &mut Store<HostState>) -> Result<Vec<VocabularyDescription>, CallError> {
        let call = self.describe.typed::<(), (Vec<wire::VocabularyDescription>,)>(&mut *store)?;
        latest::vocabulary::descriptions(call.call(store, ())?.0)
    }

    pub fn concept_groups(&self, store: &mut Store<HostState>) -> Result<Vec<ConceptGroup>, CallError> {
        let call = self.concept_groups.typed::<(), (Vec<wire::ConceptGroup>,)>(&mut *store)?;
        latest::vocabulary::groups(call.call(store, ())?.0)
    }

    pub fn concepts(
        &self,
        store: &mut Store<HostState>,
        vocabulary: &VocabularyDescription,
        cursor: u32,
        limit: u32,
    ) -> Result<ConceptPage, CallError> {
        store.data().give("the namespace", vocabulary.namespace.as_str().len())?;
        type Page = Result<wire::ConceptPage, wire::PageError>;
        let call = self.concepts.typed::<(&str, u32, u32), (Page,)>(&mut *store)?;
        let (page,) = call.call(store, (vocabulary.namespace.as_str(), cursor, limit))?;
        latest::vocabulary::page(page, vocabulary, cursor, limit)
    }

    pub fn resolve(
        &self,
        store: &mut Store<HostState>,
        namespace: &Namespace,
        code: &Code,
    ) -> Result<Result<Concept, String>, CallError> {
        type Resolved = Result<wire::Concept, wire::ResolveError>;
        let call = self.resolve.typed::<(&str, &str), (Resolved,)>(&mut *store)?;
        latest::vocabulary::resolved(call.call(store, (namespace.as_str(), code.as_str()))?.0, namespace, code)
    }
}
