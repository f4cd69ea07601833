//! How many calls each bucket refused, by why.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Refusal;

/// Refusals of one bucket.
#[derive(Debug, Default)]
pub(super) struct Refused([AtomicU64; Refusal::ALL.len()]);

impl Refused {
    /// Counts one.
    pub fn note(&self, refusal: Refusal) {
        if let Some(count) = self.0.get(refusal as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What there is to tell of the bucket.
    pub fn usage(&self, bucket: &'static str, keys: usize, keys_max: usize) -> BucketUsage {
        let mut refused = Refusal::ALL.map(|refusal| (refusal.name(), 0));
        for ((_, to), count) in refused.iter_mut().zip(&self.0) {
            *to = count.load(Ordering::Relaxed);
        }
        BucketUsage { bucket, keys, keys_max, refused }
    }
}

/// Refusals of the four buckets.
#[derive(Debug, Default)]
pub(super) struct RefusedByBucket {
    pub token: Refused,
    pub client: Refused,
    pub unauthenticated: Refused,
    pub documentation: Refused,
}

/// What the metrics page tells of a bucket.
#[derive(Debug, Clone, Copy)]
pub struct BucketUsage {
    /// Which one.
    pub bucket: &'static str,
    /// Addresses or clients that it keeps.
    pub keys: usize,
    /// How many it may.
    pub keys_max: usize,
    /// Calls that it refused, by why.
    pub refused: [(&'static str, u64); Refusal::ALL.len()],
}
