//! Evaluates eligibility rules on subjects.
//!
//! The engine runs in the sandbox and reads columns. This module determines the facts that a rule reads, fetches them
//! with the permissions of the client, lays them out as columns, and returns the inputs that are required to repeat the
//! decision.

pub mod check;
mod codes;
pub mod decision;
pub mod evaluate;
pub mod evidence;
pub mod facts;
mod failure;
mod layout;
mod load;
pub mod preview;
pub mod schema;

use std::sync::Arc;

pub use failure::ExhaustedExpressions;
use failure::engine_error;

use daftar_domain::error::AppError;
use daftar_domain::program::{ENGINE, ProgramDetails};
use daftar_sandbox::{EligibilityEngine, EngineError};

/// Returns the engine that a program names; the active one if it names none.
///
/// # Errors
/// [`AppError::EngineCompiling`], [`AppError::EngineNotInstalled`].
pub fn engine_of_program(
    engine: &Arc<dyn EligibilityEngine>,
    program: &ProgramDetails,
) -> Result<Arc<dyn EligibilityEngine>, AppError> {
    named(engine, program.get(ENGINE)).map_err(engine_error)
}

/// Returns the engine that the member `engine` of a body names; the active one if it is absent.
///
/// # Errors
/// [`AppError::Invalid`] with the installed engines; [`AppError::EngineCompiling`].
pub fn engine_of_body(
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
