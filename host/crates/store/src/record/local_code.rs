//! How a local code is stored.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::code::{Code, CodeUri};
use daftar_domain::local_code::{IdTarget, IdTypeRule, LocalCode, LocalOrigin, LocalStanding, ValuePattern};

use super::instant::{instant, milliseconds};
use super::parts::{StoredTextV1, texts, texts_as_stored};
use super::{StoredForm, Unreadable, decode_as};

/// A local code, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLocalCodeV1 {
    namespace: String,
    code: String,
    origin: StoredLocalOriginV1,
    specialises: Option<String>,
    labels: Vec<StoredTextV1>,
    reference: Option<String>,
    id_type: Option<StoredIdTypeRuleV1>,
    standing: StoredStandingV1,
    created_at_ms: i64,
    updated_at_ms: i64,
}

impl StoredForm for StoredLocalCodeV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "local code";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredLocalOriginV1 {
    Deployment,
    StarterSet,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredStandingV1 {
    Active,
    Deprecated { replaced_by: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredIdTypeRuleV1 {
    pattern: Option<StoredPatternV1>,
    target: StoredIdTargetV1,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPatternV1 {
    expression: String,
    description: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredIdTargetV1 {
    Individual,
    Group,
    Both,
}

/// The bytes of a local code.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(code: &LocalCode) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredLocalCodeV1::from(code))
}

/// The local code that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<LocalCode, StoreError> {
    decode_as(bytes, |stored: StoredLocalCodeV1| LocalCode::try_from(stored))
}

impl From<&LocalCode> for StoredLocalCodeV1 {
    fn from(code: &LocalCode) -> Self {
        Self {
            namespace: code.uri.namespace.as_str().to_owned(),
            code: code.uri.code.as_str().to_owned(),
            origin: match code.origin {
                LocalOrigin::Deployment => StoredLocalOriginV1::Deployment,
                LocalOrigin::StarterSet => StoredLocalOriginV1::StarterSet,
            },
            specialises: code.specialises.as_ref().map(|code| code.as_str().to_owned()),
            labels: texts_as_stored(&code.labels),
            reference: code.reference.clone(),
            id_type: code.id_type.as_ref().map(StoredIdTypeRuleV1::from),
            standing: match &code.standing {
                LocalStanding::Active => StoredStandingV1::Active,
                LocalStanding::Deprecated { replaced_by } => StoredStandingV1::Deprecated {
                    replaced_by: replaced_by.as_ref().map(|code| code.as_str().to_owned()),
                },
            },
            created_at_ms: milliseconds(code.created_at),
            updated_at_ms: milliseconds(code.updated_at),
        }
    }
}

impl TryFrom<StoredLocalCodeV1> for LocalCode {
    type Error = Unreadable;

    fn try_from(stored: StoredLocalCodeV1) -> Result<Self, Unreadable> {
        let code = |text: Option<String>, name| text.as_deref().map(Code::parse).transpose().map_err(unreadable(name));
        Ok(Self {
            uri: CodeUri::from_parts(&stored.namespace, &stored.code).map_err(|_| Unreadable::field("code"))?,
            origin: match stored.origin {
                StoredLocalOriginV1::Deployment => LocalOrigin::Deployment,
                StoredLocalOriginV1::StarterSet => LocalOrigin::StarterSet,
            },
            specialises: code(stored.specialises, "specialises")?,
            labels: texts(stored.labels),
            reference: stored.reference,
            id_type: stored.id_type.map(IdTypeRule::try_from).transpose()?,
            standing: match stored.standing {
                StoredStandingV1::Active => LocalStanding::Active,
                StoredStandingV1::Deprecated { replaced_by } => {
                    LocalStanding::Deprecated { replaced_by: code(replaced_by, "replaced_by")? }
                }
            },
            created_at: instant(stored.created_at_ms)?,
            updated_at: instant(stored.updated_at_ms)?,
        })
    }
}

impl From<&IdTypeRule> for StoredIdTypeRuleV1 {
    fn from(rule: &IdTypeRule) -> Self {
        Self {
            pattern: rule.pattern.as_ref().map(|pattern| StoredPatternV1 {
                expression: pattern.expression.clone(),
                description: pattern.description.clone(),
            }),
            target: match rule.target {
                IdTarget::Individual => StoredIdTargetV1::Individual,
                IdTarget::Group => StoredIdTargetV1::Group,
                IdTarget::Both => StoredIdTargetV1::Both,
            },
        }
    }
}

impl TryFrom<StoredIdTypeRuleV1> for IdTypeRule {
    type Error = Unreadable;

    fn try_from(stored: StoredIdTypeRuleV1) -> Result<Self, Unreadable> {
        let pattern = stored.pattern.map(|pattern| ValuePattern::new(pattern.expression, pattern.description));
        Ok(Self {
            pattern: pattern.transpose().map_err(|_| Unreadable::field("pattern"))?,
            target: match stored.target {
                StoredIdTargetV1::Individual => IdTarget::Individual,
                StoredIdTargetV1::Group => IdTarget::Group,
                StoredIdTargetV1::Both => IdTarget::Both,
            },
        })
    }
}

fn unreadable<E>(name: &'static str) -> impl FnOnce(E) -> Unreadable {
    move |_| Unreadable::field(name)
}
