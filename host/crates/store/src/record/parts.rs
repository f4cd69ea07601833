//! The stored forms that several kinds of record share.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use daftar_domain::calendar::{Period, date_from_days, days_since_epoch};
use daftar_domain::client::ClientId;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::identifier::{Identifier, IdentifierKey, IdentifierValue, SystemUri};
use daftar_domain::record::{RecordId, RecordMeta, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::vocabulary::LocalizedText;

use super::{Unreadable, instant};

/// Version, time and source of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMetaV1 {
    version: u64,
    last_updated_ms: i64,
    source: Option<String>,
}

impl From<&RecordMeta> for StoredMetaV1 {
    fn from(meta: &RecordMeta) -> Self {
        Self {
            version: meta.version.0,
            last_updated_ms: instant::milliseconds(meta.last_updated),
            source: meta.source.as_ref().map(|client| client.as_str().to_owned()),
        }
    }
}

impl TryFrom<StoredMetaV1> for RecordMeta {
    type Error = Unreadable;

    fn try_from(stored: StoredMetaV1) -> Result<Self, Unreadable> {
        let source = stored.source.as_deref().map(ClientId::parse).transpose();
        Ok(Self {
            version: VersionId(stored.version),
            last_updated: instant::instant(stored.last_updated_ms)?,
            source: source.map_err(|_| Unreadable::field("source"))?,
        })
    }
}

/// A stretch of days since 1970-01-01, either end open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPeriodV1 {
    start: Option<i32>,
    end: Option<i32>,
}

impl From<Period> for StoredPeriodV1 {
    fn from(period: Period) -> Self {
        Self { start: period.start.map(days_since_epoch), end: period.end.map(days_since_epoch) }
    }
}

impl TryFrom<StoredPeriodV1> for Period {
    type Error = Unreadable;

    fn try_from(stored: StoredPeriodV1) -> Result<Self, Unreadable> {
        Ok(Self { start: day(stored.start)?, end: day(stored.end)? })
    }
}

/// The day of a stored number of days.
///
/// # Errors
/// When the calendar does not reach that far.
pub fn day(days: Option<i32>) -> Result<Option<Date>, Unreadable> {
    let Some(days) = days else { return Ok(None) };
    date_from_days(days).map(Some).ok_or_else(|| Unreadable("a day lies outside the calendar".to_owned()))
}

/// One identifier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIdentifierV1 {
    system: String,
    value: String,
    period: Option<StoredPeriodV1>,
}

impl From<&Identifier> for StoredIdentifierV1 {
    fn from(identifier: &Identifier) -> Self {
        Self {
            system: identifier.key.system.as_str().to_owned(),
            value: identifier.key.value.as_str().to_owned(),
            period: identifier.period.map(StoredPeriodV1::from),
        }
    }
}

impl TryFrom<StoredIdentifierV1> for Identifier {
    type Error = Unreadable;

    fn try_from(stored: StoredIdentifierV1) -> Result<Self, Unreadable> {
        let system = SystemUri::parse(&stored.system).map_err(|_| Unreadable::field("identifier.system"))?;
        let value = IdentifierValue::parse(&stored.value).map_err(|_| Unreadable::field("identifier.value"))?;
        Ok(Self { key: IdentifierKey { system, value }, period: stored.period.map(Period::try_from).transpose()? })
    }
}

/// A code by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCodedValueV1 {
    number: u32,
    edition: u32,
}

impl From<CodedValue> for StoredCodedValueV1 {
    fn from(value: CodedValue) -> Self {
        Self { number: value.number.0, edition: value.edition.0 }
    }
}

impl From<StoredCodedValueV1> for CodedValue {
    fn from(stored: StoredCodedValueV1) -> Self {
        Self { number: CodeNumber(stored.number), edition: EditionNumber(stored.edition) }
    }
}

/// A person or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredSubjectV1 {
    /// A person.
    Individual,
    /// A group.
    Group,
}

impl From<Subject> for StoredSubjectV1 {
    fn from(kind: Subject) -> Self {
        match kind {
            Subject::Individual => Self::Individual,
            Subject::Group => Self::Group,
        }
    }
}

impl From<StoredSubjectV1> for Subject {
    fn from(stored: StoredSubjectV1) -> Self {
        match stored {
            StoredSubjectV1::Individual => Self::Individual,
            StoredSubjectV1::Group => Self::Group,
        }
    }
}

/// One person or group, by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSubjectReferenceV1 {
    kind: StoredSubjectV1,
    id: u64,
}

impl From<SubjectReference> for StoredSubjectReferenceV1 {
    fn from(reference: SubjectReference) -> Self {
        Self { kind: reference.kind.into(), id: reference.id.0 }
    }
}

impl From<StoredSubjectReferenceV1> for SubjectReference {
    fn from(stored: StoredSubjectReferenceV1) -> Self {
        Self { kind: stored.kind.into(), id: RecordId(stored.id) }
    }
}

/// Converts every item of a stored list.
///
/// # Errors
/// What is wrong with the first item that cannot be read.
pub fn each<S, D: TryFrom<S, Error = Unreadable>>(stored: Vec<S>) -> Result<Vec<D>, Unreadable> {
    stored.into_iter().map(D::try_from).collect()
}

/// A text in one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTextV1 {
    language: String,
    value: String,
}

/// Texts as they are stored.
#[must_use]
pub fn texts_as_stored(texts: &[LocalizedText]) -> Vec<StoredTextV1> {
    let stored = |text: &LocalizedText| StoredTextV1 { language: text.language.clone(), value: text.value.clone() };
    texts.iter().map(stored).collect()
}

/// Stored texts.
#[must_use]
pub fn texts(stored: Vec<StoredTextV1>) -> Vec<LocalizedText> {
    stored.into_iter().map(|text| LocalizedText { language: text.language, value: text.value }).collect()
}
