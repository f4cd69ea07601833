//! One operation of CEL on known values, done by the crate.
//!
//! **Invariant:** an operation is strict: it is called only if all operands are known. Operations that may be decided
//! without one of them (logic, choice, searching lists) are the evaluator's own.
//! **Invariant:** the crate's errors are matched and never displayed, since their text contains values.

use super::CrateValue;
use crate::value::FailureKind;
use cel_interpreter::common::ast::{CallExpr, Expr};
use cel_interpreter::{Context, Env, ExecutionError, IdedExpr, Value, extensions};
use std::cell::OnceCell;
use std::sync::Arc;

/// The crate's functions, and variables other than the registry's roots (none outside conformance tests).
pub struct Environment {
    functions: OnceCell<Arc<Env>>,
    container: String,
    variables: Arc<Vec<(String, CrateValue)>>,
}

impl Default for Environment {
    fn default() -> Self {
        Self::new(Vec::new(), "")
    }
}

impl Environment {
    /// An environment with these variables, whose names are resolved in that container.
    pub fn new(variables: Vec<(String, CrateValue)>, container: &str) -> Self {
        Self { functions: OnceCell::new(), container: container.to_owned(), variables: Arc::new(variables) }
    }

    /// Returns true if there are variables other than the registry's roots.
    pub fn has_variables(&self) -> bool {
        !self.variables.is_empty()
    }

    /// The functions, created on first use.
    pub fn functions(&self) -> &Arc<Env> {
        self.functions.get_or_init(|| {
            let mut env = Env::default().with_stdlib();
            // These cannot conflict: they are the crate's own, each added once.
            let _ = env.add_extension(extensions::strings);
            let _ = env.add_extension(extensions::math);
            let _ = env.add_extension(extensions::lists);
            let _ = env.add_extension(extensions::encoders);
            let _ = env.set_container(&self.container);
            Arc::new(env)
        })
    }

    /// The operation of that syntax, whose operands are created by [`operand`].
    pub fn operation(&self, expression: Expr) -> Operation {
        let expression = Arc::new(IdedExpr { id: 0, expr: expression });
        Operation { expression, functions: self.functions().clone(), variables: self.variables.clone() }
    }
}

/// An operation of the crate.
#[derive(Clone)]
pub struct Operation {
    expression: Arc<IdedExpr>,
    functions: Arc<Env>,
    variables: Arc<Vec<(String, CrateValue)>>,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.expression.expr.fmt(formatter)
    }
}

impl Operation {
    /// Applies the operation.
    ///
    /// # Errors
    ///
    /// The operation is not defined for them.
    pub fn apply(&self, operands: Vec<CrateValue>) -> Result<CrateValue, FailureKind> {
        let mut context: Context<'_, 'static> = Context::with_env(self.functions.clone());
        for (name, value) in self.variables.iter() {
            context.add_variable_as_val(name.clone(), value.clone());
        }
        for (number, value) in operands.into_iter().enumerate() {
            context.add_variable_as_val(name(number), value);
        }
        match Value::resolve_val(&self.expression, &context) {
            Ok(value) => Ok(value.into_owned()),
            Err(error) => Err(failure(&error)),
        }
    }
}

/// The operand of that number.
pub fn operand(number: usize) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Ident(name(number)) }
}

/// A call of an operator or function with that many operands; the first one is the target of a method.
pub fn call(function: &str, is_method: bool, operands: usize) -> Expr {
    let first = usize::from(is_method);
    Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: is_method.then(|| Box::new(operand(0))),
        args: (first..operands).map(operand).collect(),
    })
}

/// A call of a function whose operands are passed as one list.
pub fn choose(function: &str, operands: usize) -> Expr {
    let elements = (0..operands).map(operand).collect();
    let list = Expr::List(cel_interpreter::common::ast::ListExpr::new(elements));
    Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args: vec![IdedExpr { id: 0, expr: list }] })
}

/// A name that is not valid in expressions.
fn name(number: usize) -> String {
    format!("@{number}")
}

fn failure(error: &ExecutionError) -> FailureKind {
    match error {
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => FailureKind::DivisionByZero,
        ExecutionError::Overflow(..) => FailureKind::Overflow,
        ExecutionError::IndexOutOfBounds(_) => FailureKind::IndexOutOfBounds,
        ExecutionError::NoSuchKey(_) => FailureKind::NoSuchKey,
        ExecutionError::UndeclaredReference(_) => FailureKind::Undeclared,
        ExecutionError::DuplicateKey(_) => FailureKind::DuplicateKey,
        ExecutionError::FunctionError { .. } => FailureKind::InvalidConversion,
        // All other errors are type errors.
        _ => FailureKind::WrongType,
    }
}
