//! Cursors: where a walk through the pages of a search stands, in a form that clients carry and cannot read.
//!
//! **Invariant:** a cursor is good for the client, the search, its conditions and its order alone that it was given for; any other
//! use is 400. It holds nothing that the client was not shown, and no length tells what it holds.

use postcard::{from_bytes, to_stdvec};
use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::extract::query::Parameters;
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::order::{Position, SortValue};

/// The parameters that may change from page to page.
const FREE: [&str; 4] = ["_cursor", "_count", "_offset", "_elements"];

/// The form that is sealed. Another form is another version; cursors of versions before are refused.
#[derive(Serialize, Deserialize)]
enum Form {
    V1 { values: Vec<Value>, record: u64, passed: u64 },
}

#[derive(Serialize, Deserialize)]
enum Value {
    Missing,
    Number(u64),
    Text(String),
}

/// What a cursor of a search is good for.
fn purpose(ctx: &OpContext, kind: RecordKind, parameters: &Parameters) -> Vec<u8> {
    let client = ctx.client().map(ToString::to_string).unwrap_or_default();
    format!("{client}\n{kind}\n{}", parameters.sorted_without(&FREE)).into_bytes()
}

/// Writes a cursor.
///
/// # Errors
/// When it cannot be sealed.
pub fn write(
    app: &AppState,
    ctx: &OpContext,
    kind: RecordKind,
    parameters: &Parameters,
    position: &Position,
) -> Result<String, AppError> {
    let values = position.values.iter().map(|value| match value {
        SortValue::Missing => Value::Missing,
        SortValue::Number(number) => Value::Number(*number),
        SortValue::Text(text) => Value::Text(text.clone()),
    });
    let form = Form::V1 { values: values.collect(), record: position.record.0, passed: position.passed };
    let said = to_stdvec(&form).map_err(|error| AppError::Internal(error.into()))?;
    let sealed = app.cursors.seal(&purpose(ctx, kind, parameters), &said);
    sealed.map_err(|error| AppError::Internal(error.into()))
}

/// Reads a cursor that was written for the same client and search.
///
/// # Errors
/// 400 for any other text.
pub fn read(
    app: &AppState,
    ctx: &OpContext,
    kind: RecordKind,
    parameters: &Parameters,
    text: &str,
) -> Result<Position, ApiError> {
    let said = app.cursors.open(&purpose(ctx, kind, parameters), text);
    let Some(Ok(Form::V1 { values, record, passed })) = said.map(|said| from_bytes(&said)) else {
        let detail = "`_cursor` is not one that this server gave this client for this search: follow `links.next` as it is, with \
            the same filters and the same `_sort`, or begin again without `_cursor`";
        return Err(AppError::InvalidCursor(detail).into());
    };
    let values = values.into_iter().map(|value| match value {
        Value::Missing => SortValue::Missing,
        Value::Number(number) => SortValue::Number(number),
        Value::Text(text) => SortValue::Text(text),
    });
    Ok(Position { values: values.collect(), record: RecordId(record), passed })
}
