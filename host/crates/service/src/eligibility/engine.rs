//! The engine of a rule: the one that a program or a request names, or else the active one.

use std::sync::Arc;

use super::failure::engine_error;
use daftar_domain::error::AppError;
use daftar_domain::program::{ENGINE, ProgramDetails};
use daftar_sandbox::{EligibilityEngine, EngineError};

/// Returns the engine that a program names; the active one if it names none.
///
/// # Errors
/// [`AppError::EngineCompiling`], [`AppError::EngineNotInstalled`].
pub fn of_program(
    engine: &Arc<dyn EligibilityEngine>,
    program: &ProgramDetails,
) -> Result<Arc<dyn EligibilityEngine>, AppError> {
    named(engine, program.get(ENGINE)).map_err(engine_error)
}

/// Returns the engine that the member `engine` of a body names; the active one if it is absent.
///
/// # Errors
/// [`AppError::Invalid`] with the installed engines; [`AppError::EngineCompiling`].
pub fn of_body(
    engine: &Arc<dyn EligibilityEngine>,
    name: Option<&str>,
) -> Result<Arc<dyn EligibilityEngine>, AppError> {
    named(engine, name).map_err(|error| match error {
        EngineError::NotInstalled { .. } => AppError::invalid("engine", "not_installed", error.to_string()),
        other => engine_error(other),
    })
}

fn named(engine: &Arc<dyn EligibilityEngine>, name: Option<&str>) -> Result<Arc<dyn EligibilityEngine>, EngineError> {
    match name {
        Some(name) => Arc::clone(engine).named(name),
        None => Ok(Arc::clone(engine)),
    }
}
