//! The content of the consent index for a [`Fingerprint`](crate::testing::fingerprint::Fingerprint).

use std::collections::BTreeMap;

use super::names::DayRange;
use super::{Class, ConsentIndex, ConsentRows, Given, Texts};
use crate::bitmaps::Posting;
use crate::stored::bytes_of;
use crate::testing::fingerprint::Visitor;

impl ConsentIndex {
    /// Visits the content, so that two indexes can be compared. Numbers of names are not included, nor are unused
    /// names.
    pub(crate) fn visit(&self, visitor: &mut Visitor) {
        let texts = self.names.texts();
        visitor.values(
            "consents given",
            self.given.iter().map(|(key, given)| {
                let class = Class { organization: given.organization, purpose: given.purpose, fields: given.fields };
                let bare = Given { organization: 0, purpose: 0, fields: 0, ..*given };
                (*key, texts.bytes_of_class(class), bytes_of(&bare))
            }),
        );
        for (what, covers) in [
            ("individuals covered", &self.individuals),
            ("groups covered", &self.groups),
            ("memberships covered", &self.memberships),
        ] {
            visitor.postings(what, by_name(&texts, covers).iter().map(|(key, rows)| (key, *rows)));
        }
        visitor.values("beneficiaries", self.beneficiaries.iter().map(|(id, subject)| (*id, *subject)));
    }
}

/// Returns the rows by term, with names in place of numbers.
fn by_name<'c>(texts: &Texts, covers: &'c ConsentRows) -> BTreeMap<(Vec<u8>, DayRange), &'c Posting> {
    covers.iter().map(|((class, range), rows)| ((texts.bytes_of_class(*class), *range), rows)).collect()
}

impl Texts {
    fn bytes_of_class(&self, class: Class) -> Vec<u8> {
        let (organization, purpose) = (self.organizations.get(&class.organization), self.purposes.get(&class.purpose));
        bytes_of(&(organization, purpose, self.fields.get(&class.fields)))
    }
}
