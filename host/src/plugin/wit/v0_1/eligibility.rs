//! Eligibility engines of interface version 0.1.0.

use wasmtime::Store;
use wasmtime::component::{Func, InstancePre, ResourceAny};

use super::Functions;
use crate::domain::eligibility::{Batch, Bindings, Diagnostic, PlacedQuestion, Reference, Schema};
use crate::plugin::bindings::engine::daftar::plugin::{columns as wire_columns, schema as wire_schema};
use crate::plugin::bindings::engine::exports::daftar::plugin::eligibility as wire;
use crate::plugin::sandbox::{CallError, HostState};
use crate::plugin::wit::latest::eligibility as read;
use crate::plugin::wit::{Evaluated, RuleHandle};

/// An engine, ready to be instantiated.
#[derive(Clone)]
pub(in crate::plugin) struct Linked(Functions<6>);

impl Linked {
    pub fn new(pre: InstancePre<HostState>) -> wasmtime::Result<Self> {
        let names = [
            "compile",
            "[method]rule.references",
            "[method]rule.questions",
            "[method]rule.warnings",
            "[method]rule.bind",
            "[method]rule.evaluate",
        ];
        Functions::find(pre, "daftar:plugin/eligibility@0.1.0", names).map(Self)
    }

    pub fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<Rules> {
        let [compile, references, questions, warnings, bind, evaluate] = self.0.instantiate(store)?;
        Ok(Rules { compile, references, questions, warnings, bind, evaluate })
    }
}

/// An instance of an engine.
pub(in crate::plugin) struct Rules {
    compile: Func,
    references: Func,
    questions: Func,
    warnings: Func,
    bind: Func,
    evaluate: Func,
}

impl Rules {
    pub fn compile(
        &self,
        store: &mut Store<HostState>,
        expression: &str,
        schema: &Schema,
    ) -> Result<Result<RuleHandle, Vec<Diagnostic>>, CallError> {
        type Compiled = Result<ResourceAny, Vec<wire::Diagnostic>>;
        store.data().give("the expression", expression.len())?;
        read::compiled(expression, schema, |schema| {
            let call = self.compile.typed::<(&str, wire_schema::RegistrySchema<'_>), (Compiled,)>(&mut *store)?;
            Ok(call.call(&mut *store, (expression, schema))?.0)
        })
    }

    pub fn references(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        schema: &Schema,
    ) -> Result<Vec<Reference>, CallError> {
        let call = self.references.typed::<(ResourceAny,), (Vec<wire::Reference>,)>(&mut *store)?;
        read::references(call.call(store, (rule.0,))?.0, schema)
    }

    pub fn questions(&self, store: &mut Store<HostState>, rule: RuleHandle) -> Result<Vec<PlacedQuestion>, CallError> {
        let call = self.questions.typed::<(ResourceAny,), (Vec<wire::PlacedQuestion>,)>(&mut *store)?;
        read::questions(call.call(store, (rule.0,))?.0)
    }

    pub fn warnings(&self, store: &mut Store<HostState>, rule: RuleHandle) -> Result<Vec<Diagnostic>, CallError> {
        let call = self.warnings.typed::<(ResourceAny,), (Vec<wire::Diagnostic>,)>(&mut *store)?;
        read::warnings(call.call(store, (rule.0,))?.0)
    }

    pub fn bind(&self, store: &mut Store<HostState>, rule: RuleHandle, bindings: &Bindings) -> Result<(), CallError> {
        store.data().give("the bindings", read::bindings_bytes(bindings))?;
        read::bound(bindings, |bindings| {
            type Bound = Result<(), wire::BindError>;
            let call = self.bind.typed::<(ResourceAny, wire::Bindings<'_>), (Bound,)>(&mut *store)?;
            Ok(call.call(&mut *store, (rule.0, bindings))?.0)
        })
    }

    pub fn evaluate(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        batch: &Batch,
    ) -> Result<Evaluated, CallError> {
        store.data().give("the batch", read::batch_bytes(batch))?;
        read::evaluated(batch, |batch| {
            type Answer = Result<wire::Outcomes, wire::EvaluationError>;
            let call = self.evaluate.typed::<(ResourceAny, wire_columns::Batch<'_>), (Answer,)>(&mut *store)?;
            Ok(call.call(&mut *store, (rule.0, batch))?.0)
        })
    }
}
