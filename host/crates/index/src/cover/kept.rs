//! What a checkpoint holds of the consents, and how two of their indexes are compared.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::names::Names;
use super::{Class, CoverIndex, Covers, Given, Stretch};
use crate::checkpoint::{CheckpointWriter, Loading, Section};
use crate::image::Teller;
use crate::stored::{Unsound, bytes_of};
use crate::tree::SharedTree;
use daftar_domain::consent::ConsentId;

/// Writes a consent's id as its bytes.
pub(super) fn put_id<S: Serializer>(id: &ConsentId, to: S) -> Result<S::Ok, S::Error> {
    id.to_bytes().serialize(to)
}

/// Reads a consent's id.
pub(super) fn take_id<'de, D: Deserializer<'de>>(from: D) -> Result<ConsentId, D::Error> {
    <[u8; 16]>::deserialize(from).map(ConsentId::from_bytes)
}

impl CoverIndex {
    /// Writes it to a checkpoint.
    pub(crate) fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let Self { names, given, classes, individuals, groups, memberships, beneficiaries, answers: _ } = self;
        checkpoint.section(Section::CoverNames)?.add(&names.texts())?;
        given.store(checkpoint.section(Section::CoverGiven)?)?;
        classes.store(checkpoint.section(Section::CoverClasses)?)?;
        individuals.store(checkpoint.section(Section::CoveredIndividuals)?)?;
        groups.store(checkpoint.section(Section::CoveredGroups)?)?;
        memberships.store(checkpoint.section(Section::CoveredMemberships)?)?;
        beneficiaries.store(checkpoint.section(Section::Beneficiaries)?)
    }

    /// Reads it from a checkpoint.
    pub(crate) fn load(checkpoint: &Loading<'_>) -> Result<Self, Unsound> {
        Ok(Self {
            names: checkpoint.read(Section::CoverNames, |frames| frames.one().map(Names::of_texts))?,
            given: checkpoint.read(Section::CoverGiven, SharedTree::load)?,
            classes: checkpoint.read(Section::CoverClasses, SharedTree::load)?,
            individuals: checkpoint.read(Section::CoveredIndividuals, SharedTree::load)?,
            groups: checkpoint.read(Section::CoveredGroups, SharedTree::load)?,
            memberships: checkpoint.read(Section::CoveredMemberships, SharedTree::load)?,
            beneficiaries: checkpoint.read(Section::Beneficiaries, SharedTree::load)?,
            answers: Arc::default(),
        })
    }

    /// Tells what it holds, so that two can be compared. Numbers of names do not count, nor do names that nothing uses any more.
    pub(crate) fn tell(&self, teller: &mut Teller) {
        let texts = self.names.texts();
        teller.values(
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
            teller.postings(what, by_name(&texts, covers).iter().map(|(key, rows)| (key, *rows)));
        }
        teller.values("beneficiaries", self.beneficiaries.iter().map(|(id, subject)| (*id, *subject)));
    }
}

/// Rows by what they are covered by, told in words.
fn by_name<'c>(texts: &Texts, covers: &'c Covers) -> BTreeMap<(Vec<u8>, Stretch), &'c super::Posting> {
    covers.iter().map(|((class, stretch), rows)| ((texts.bytes_of_class(*class), *stretch), rows)).collect()
}

/// What the numbers of names stand for.
#[derive(Serialize, Deserialize)]
pub(super) struct Texts {
    pub(super) organizations: BTreeMap<u32, String>,
    pub(super) purposes: BTreeMap<u32, String>,
    pub(super) fields: BTreeMap<u32, Option<Vec<String>>>,
}

impl Texts {
    fn bytes_of_class(&self, class: Class) -> Vec<u8> {
        let (organization, purpose) = (self.organizations.get(&class.organization), self.purposes.get(&class.purpose));
        bytes_of(&(organization, purpose, self.fields.get(&class.fields)))
    }
}
