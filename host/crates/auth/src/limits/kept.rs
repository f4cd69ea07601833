//! A bucket as this server keeps it: by itself, or with others.

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use super::Quota;
use super::bucket::{Bucket, Calls, Moment};
use super::common::{CommonBucket, CommonCounts};
use super::day::DayCounts;
use super::decision::Decision;
use daftar_domain::error::AppError;

/// Where counts are kept.
#[derive(Clone)]
pub(super) enum Counts {
    /// On a disk of this process's own.
    Own(Arc<dyn DayCounts>),
    /// In a store that several processes share.
    Common(Arc<dyn CommonCounts>),
}

/// What each key has used or holds.
pub(super) enum Kept<K> {
    Own(Bucket<K>),
    Common(CommonBucket<K>),
}

impl<K: Clone + Eq + Hash + Display + Send + 'static> Kept<K> {
    pub(super) fn new(name: &'static str, keys_max: usize, counts: &Counts) -> Self {
        match counts {
            Counts::Own(counts) => Self::Own(Bucket::new(name, keys_max, Arc::clone(counts))),
            Counts::Common(counts) => Self::Common(CommonBucket::new(name, keys_max, Arc::clone(counts))),
        }
    }

    pub(super) async fn charge(
        &self,
        key: &K,
        quota: Quota,
        calls: Calls,
        moment: impl Fn() -> Moment,
    ) -> Result<Decision, AppError> {
        match self {
            Self::Own(bucket) => bucket.charge(key, quota, calls, moment).await,
            Self::Common(bucket) => bucket.charge(key, quota, calls, moment).await,
        }
    }

    pub(super) async fn prune(&self, moment: Moment) -> Result<(), AppError> {
        match self {
            Self::Own(bucket) => {
                bucket.prune(moment);
                Ok(())
            }
            Self::Common(bucket) => bucket.prune(moment).await,
        }
    }

    /// Gives back what is held and not used; on a disk of one's own what was reserved stays so.
    pub(super) async fn give_back(&self, moment: Moment) -> Result<(), AppError> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Common(bucket) => bucket.give_back(moment).await,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(bucket) => bucket.len(),
            Self::Common(bucket) => bucket.len(),
        }
    }
}

impl Counts {
    /// Removes the counts of all days before that one.
    pub(super) async fn forget_before(&self, day: jiff::civil::Date) -> Result<(), AppError> {
        let forgotten = match self {
            Self::Own(counts) => counts.forget_before(day).await,
            Self::Common(counts) => counts.forget_before(day).await,
        };
        forgotten.map_err(AppError::Unavailable)
    }
}
