//! What of a preview crosses from one process to another: the task, its parts, and what came of each.
//!
//! **Invariant:** everything begins with a version byte, since processes of two versions may work side by side while one replaces the other; what
//! another version wrote is left to its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Shown;
use super::counted::{Counted, OfRegion};
use super::inquiry::Inquiry;
use super::tally::{Breakdowns, Counts};
use daftar_domain::audit::Actor;
use daftar_domain::calendar::{date_from_days, days_since_epoch};
use daftar_domain::client::ClientId;
use daftar_domain::code::CodeNumber;
use daftar_domain::consent::ConsentId;
use daftar_domain::consent_filter::{ConsentFilter, Purpose};
use daftar_domain::context::OpContext;
use daftar_domain::context::trail::{Trail, TrailOf};
use daftar_domain::eligibility::{RowError, Subject, Verdict};
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::grant::Grants;
use daftar_domain::organization::Organization;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Scope;

/// The version of all forms here.
const VERSION: u8 = 1;

/// Who asks, as far as it decides what is seen.
#[derive(Serialize, Deserialize)]
struct Caller {
    /// The client; the administrator, where absent.
    client: Option<String>,
    /// The organization and the purpose by which consents are found; absent where none are needed.
    consent: Option<(Option<String>, Option<String>)>,
    scopes: Vec<String>,
    /// Scopes with their fields; all, where absent.
    grants: Vec<(String, Option<Vec<String>>)>,
    request_id: String,
    now_ms: i64,
}

/// A preview as another process takes it up.
#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    caller: Caller,
    /// The moment at which the register is looked at.
    pub moment: String,
    pub partition_keys: u32,
    pub engine: String,
    /// Digest of the vocabularies in force.
    pub vocabularies: String,
    pub expression: String,
    pub is_about_groups: bool,
    as_of_days: i32,
    by_gender: bool,
    by_age_band: bool,
    by_region: bool,
    pub tells_subjects: bool,
}

/// A part of it: subjects of one partition by their place in it.
#[derive(Serialize, Deserialize)]
pub(super) struct PartTask {
    /// A bitmap in roaring's portable form.
    pub subjects: Vec<u8>,
    /// Those of the sample, ascending.
    pub sample: Vec<u32>,
}

type StoredCounts = [u64; 5];

#[derive(Serialize, Deserialize)]
struct StoredShown {
    subject: String,
    verdict: u8,
    missing: Vec<String>,
    errors: Vec<(u32, String, u32, u32)>,
}

/// What came of a part.
#[derive(Serialize, Deserialize)]
struct StoredOutcome {
    counts: StoredCounts,
    by_gender: Vec<(Option<u32>, StoredCounts)>,
    by_age_band: Vec<(Option<u8>, StoredCounts)>,
    by_region: Vec<(Option<String>, u64, StoredCounts)>,
    missing: Vec<(String, u64)>,
    sample: Vec<StoredShown>,
    told: Vec<StoredShown>,
    consents_told: Vec<String>,
    consents: Vec<String>,
}

/// What came of a part: what was counted, and what goes into the audit log.
#[derive(Debug, Default)]
pub(super) struct PartOutcome {
    pub counted: Counted,
    /// What the rule says of each subject, where that is told.
    pub told: Vec<Shown>,
    /// The consents that open the records of these.
    pub consents_told: BTreeSet<ConsentId>,
    /// Every consent that the part relied on.
    pub consents: Vec<ConsentId>,
}

/// What another process wrote cannot be read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it was written by another version")]
pub(super) struct OtherVersion;

fn put<T: Serialize>(form: &T) -> Result<Vec<u8>, OtherVersion> {
    postcard::to_extend(form, vec![VERSION]).map_err(|_| OtherVersion)
}

fn take<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, OtherVersion> {
    let body = bytes.strip_prefix(&[VERSION]).ok_or(OtherVersion)?;
    postcard::from_bytes(body).map_err(|_| OtherVersion)
}

impl Task {
    /// A preview of that moment, in partitions of so many keys.
    pub fn of(inquiry: &Inquiry, moment: &str, partition_keys: u32) -> Self {
        Self {
            caller: Caller::of(&inquiry.ctx),
            moment: moment.to_owned(),
            partition_keys,
            engine: inquiry.engine_name.clone(),
            vocabularies: inquiry.generation.digest().to_string(),
            expression: inquiry.expression.clone(),
            is_about_groups: inquiry.kind == Subject::Group,
            as_of_days: days_since_epoch(inquiry.as_of),
            by_gender: inquiry.breakdowns.by_gender,
            by_age_band: inquiry.breakdowns.by_age_band,
            by_region: inquiry.breakdowns.by_region,
            tells_subjects: inquiry.tells_subjects,
        }
    }

    pub fn put(&self) -> Result<Vec<u8>, OtherVersion> {
        put(self)
    }

    pub fn take(bytes: &[u8]) -> Result<Self, OtherVersion> {
        take(bytes)
    }

    pub fn kind(&self) -> Subject {
        if self.is_about_groups { Subject::Group } else { Subject::Individual }
    }

    pub fn as_of(&self) -> Result<Date, OtherVersion> {
        date_from_days(self.as_of_days).ok_or(OtherVersion)
    }

    pub fn breakdowns(&self) -> Breakdowns {
        Breakdowns { by_gender: self.by_gender, by_age_band: self.by_age_band, by_region: self.by_region }
    }

    /// As whom it is decided; it collects the consents that are relied on.
    pub fn context(&self) -> Result<OpContext, OtherVersion> {
        self.caller.context()
    }
}

impl Caller {
    fn of(ctx: &OpContext) -> Self {
        let fields = |fields: &FieldSet| match fields {
            FieldSet::All => None,
            FieldSet::Only(names) => Some(names.iter().map(ToString::to_string).collect()),
        };
        let consent = ctx.consent.as_ref().map(|filter| {
            let organization = filter.organization.as_ref().map(|organization| organization.as_str().to_owned());
            (organization, filter.purpose.as_ref().map(ToString::to_string))
        });
        Self {
            client: ctx.client().map(|client| client.as_str().to_owned()),
            consent,
            scopes: ctx.scopes.iter().map(|scope| scope.to_string()).collect(),
            grants: ctx.grants.iter().map(|(scope, of)| (scope.to_string(), fields(of))).collect(),
            request_id: ctx.request_id.to_string(),
            now_ms: ctx.now.as_millisecond(),
        }
    }

    fn context(&self) -> Result<OpContext, OtherVersion> {
        let scope = |text: &String| Scope::parse(text).map_err(|_| OtherVersion);
        let actor = match &self.client {
            Some(client) => Actor::Client(ClientId::parse(client).map_err(|_| OtherVersion)?),
            None => Actor::Administrator,
        };
        let consent = match &self.consent {
            Some((organization, purpose)) => Some(ConsentFilter {
                organization: organization.as_deref().map(Organization::parse).transpose().map_err(|_| OtherVersion)?,
                purpose: purpose.as_deref().map(Purpose::parse).transpose().map_err(|_| OtherVersion)?,
            }),
            None => None,
        };
        let mut grants = Grants::default();
        for (granted, fields) in &self.grants {
            let granted = scope(granted)?;
            let fields = match fields {
                None => FieldSet::All,
                Some(names) => {
                    let names = names.iter().map(|name| FieldName::parse(granted.resource, name));
                    FieldSet::only(names.collect::<Result<Vec<_>, _>>().map_err(|_| OtherVersion)?)
                }
            };
            grants.insert(granted, fields);
        }
        let request_id: Arc<str> = self.request_id.as_str().into();
        let trail = Trail::new(TrailOf {
            request_id: Arc::clone(&request_id),
            operation: "part of a preview".into(),
            address: None,
            success_status: 200,
        });
        let now = Timestamp::from_millisecond(self.now_ms).map_err(|_| OtherVersion)?;
        let unbound = OpContext::unbound(actor, request_id, now, trail);
        Ok(OpContext { consent, scopes: self.scopes.iter().map(scope).collect::<Result<_, _>>()?, grants, ..unbound })
    }
}

impl PartTask {
    pub fn put(&self) -> Result<Vec<u8>, OtherVersion> {
        put(self)
    }

    pub fn take(bytes: &[u8]) -> Result<Self, OtherVersion> {
        take(bytes)
    }
}

fn stored(counts: Counts) -> StoredCounts {
    [counts.total, counts.eligible, counts.not_eligible, counts.undetermined, counts.errors]
}

fn counts([total, eligible, not_eligible, undetermined, errors]: StoredCounts) -> Counts {
    Counts { total, eligible, not_eligible, undetermined, errors }
}

impl From<&Shown> for StoredShown {
    fn from(shown: &Shown) -> Self {
        let verdict = match shown.verdict {
            Verdict::NotEligible => 0,
            Verdict::Eligible => 1,
            Verdict::Undetermined => 2,
        };
        let errors = shown.errors.iter().map(|error| (error.row, error.code.clone(), error.line, error.column));
        Self { subject: shown.subject.clone(), verdict, missing: shown.missing.clone(), errors: errors.collect() }
    }
}

impl TryFrom<StoredShown> for Shown {
    type Error = OtherVersion;

    fn try_from(stored: StoredShown) -> Result<Self, OtherVersion> {
        let verdict = match stored.verdict {
            0 => Verdict::NotEligible,
            1 => Verdict::Eligible,
            2 => Verdict::Undetermined,
            _ => return Err(OtherVersion),
        };
        let errors = stored.errors.into_iter().map(|(row, code, line, column)| RowError { row, code, line, column });
        Ok(Self { subject: stored.subject, verdict, missing: stored.missing, errors: errors.collect() })
    }
}

impl PartOutcome {
    pub fn put(&self) -> Result<Vec<u8>, OtherVersion> {
        let Counted { counts, by_gender, by_age_band, by_region, missing, sample } = &self.counted;
        let of_region = by_region.iter().map(|(region, of)| (region.clone(), of.first.0, stored(of.counts)));
        let of_band =
            by_age_band.iter().map(|(band, counts)| (band.and_then(|band| u8::try_from(band).ok()), stored(*counts)));
        put(&StoredOutcome {
            counts: stored(*counts),
            by_gender: by_gender.iter().map(|(code, counts)| (code.map(|code| code.0), stored(*counts))).collect(),
            by_age_band: of_band.collect(),
            by_region: of_region.collect(),
            missing: missing.iter().map(|(name, count)| (name.clone(), *count)).collect(),
            sample: sample.iter().map(StoredShown::from).collect(),
            told: self.told.iter().map(StoredShown::from).collect(),
            consents_told: self.consents_told.iter().map(ToString::to_string).collect(),
            consents: self.consents.iter().map(ToString::to_string).collect(),
        })
    }

    pub fn take(bytes: &[u8]) -> Result<Self, OtherVersion> {
        let outcome: StoredOutcome = take(bytes)?;
        let shown = |all: Vec<StoredShown>| all.into_iter().map(Shown::try_from).collect::<Result<Vec<_>, _>>();
        let consent = |text: &String| ConsentId::parse(text).map_err(|_| OtherVersion);
        let of_region = outcome
            .by_region
            .into_iter()
            .map(|(region, first, of)| (region, OfRegion { first: RecordId(first), counts: counts(of) }));
        let by_gender = outcome.by_gender.into_iter().map(|(code, of)| (code.map(CodeNumber), counts(of)));
        let by_age_band = outcome.by_age_band.into_iter().map(|(band, of)| (band.map(usize::from), counts(of)));
        Ok(Self {
            counted: Counted {
                counts: counts(outcome.counts),
                by_gender: by_gender.collect(),
                by_age_band: by_age_band.collect(),
                by_region: of_region.collect(),
                missing: outcome.missing.into_iter().collect(),
                sample: shown(outcome.sample)?,
            },
            told: shown(outcome.told)?,
            consents_told: outcome.consents_told.iter().map(consent).collect::<Result<_, _>>()?,
            consents: outcome.consents.iter().map(consent).collect::<Result<_, _>>()?,
        })
    }
}
