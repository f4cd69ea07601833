//! Eligibility engines of interface version 0.1.0.

use wasmtime::Store;
use wasmtime::component::{ComponentType, Func, InstancePre, Lift, ResourceAny};

use super::Functions;
use crate::domain::eligibility::{Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema};
use crate::plugin::bindings::engine::daftar::plugin::{columns as wire_columns, schema as wire_schema};
use crate::plugin::bindings::engine::exports::daftar::plugin::eligibility as wire;
use crate::plugin::sandbox::{CallError, HostState};
use crate::plugin::wit::latest::eligibility as read;
use crate::plugin::wit::{Answered, EngineBudget, RuleHandle};

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

/// A field that a rule reads: in 0.2.0 with its place.
#[derive(ComponentType, Lift)]
#[component(record)]
struct WireReference {
    space: wire_schema::RowSpace,
    path: String,
    #[component(name = "needs-texts")]
    needs_texts: bool,
}

impl From<WireReference> for Reference {
    fn from(from: WireReference) -> Self {
        let WireReference { space, path, needs_texts } = from;
        Self { space: read::space(space), path, needs_texts, line: 0, column: 0, length: 0 }
    }
}

/// Why a batch gave no outcomes: in 0.2.0 a budget has a size.
#[derive(ComponentType, Lift)]
#[component(variant)]
enum EvaluationError {
    #[component(name = "not-bound")]
    NotBound,
    #[component(name = "missing-column")]
    MissingColumn(String),
    #[component(name = "malformed-batch")]
    MalformedBatch(String),
    #[component(name = "exhausted")]
    Exhausted(String),
}

impl From<EvaluationError> for read::Refusal {
    fn from(error: EvaluationError) -> Self {
        match error {
            EvaluationError::NotBound => Self::NotBound,
            EvaluationError::MissingColumn(path) => Self::MissingColumn(path),
            EvaluationError::MalformedBatch(reason) => Self::MalformedBatch(reason),
            EvaluationError::Exhausted(name) => Self::Exhausted(EngineBudget { name, allowed: None }),
        }
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
        let call = self.references.typed::<(ResourceAny,), (Vec<WireReference>,)>(&mut *store)?;
        let answer = call.call(store, (rule.0,))?.0;
        read::references(answer.into_iter().map(Reference::from).collect(), schema)
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
    ) -> Result<Answered<Outcomes>, CallError> {
        store.data().give("the batch", read::batch_bytes(batch))?;
        read::evaluated(batch, |batch| {
            type Answer = Result<wire::Outcomes, EvaluationError>;
            let call = self.evaluate.typed::<(ResourceAny, wire_columns::Batch<'_>), (Answer,)>(&mut *store)?;
            Ok(call.call(&mut *store, (rule.0, batch))?.0.map_err(read::Refusal::from))
        })
    }
}
