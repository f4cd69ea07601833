//! What a rule says of some of the subjects of a preview: it adds up, whoever decided about them.

use std::collections::BTreeMap;

use super::Shown;
use super::tally::Counts;
use daftar_domain::code::CodeNumber;
use daftar_domain::record::RecordId;

/// What was counted of some subjects.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub counts: Counts,
    /// By code; those without one under none.
    pub by_gender: BTreeMap<Option<CodeNumber>, Counts>,
    /// By place in [`super::AGE_BANDS`]; those whose age is not known under none.
    pub by_age_band: BTreeMap<Option<usize>, Counts>,
    /// By region in the form in which it is compared; those without one under none.
    pub by_region: BTreeMap<Option<String>, OfRegion>,
    pub missing: BTreeMap<String, u64>,
    /// Those of the sample, in the order of registration.
    pub sample: Vec<Shown>,
}

/// The subjects of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OfRegion {
    /// The first of them, whose record says how the region is spelt.
    pub first: RecordId,
    pub counts: Counts,
}

impl Counted {
    /// Adds what was counted of others, who were registered later.
    pub fn merge(&mut self, later: Self) {
        self.counts.merge(later.counts);
        for (gender, counts) in later.by_gender {
            self.by_gender.entry(gender).or_default().merge(counts);
        }
        for (band, counts) in later.by_age_band {
            self.by_age_band.entry(band).or_default().merge(counts);
        }
        for (region, of_region) in later.by_region {
            let none = OfRegion { first: of_region.first, counts: Counts::default() };
            self.by_region.entry(region).or_insert(none).counts.merge(of_region.counts);
        }
        for (field, count) in later.missing {
            *self.missing.entry(field).or_default() += count;
        }
        self.sample.extend(later.sample);
    }
}
