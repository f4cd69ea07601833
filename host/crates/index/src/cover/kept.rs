//! What a checkpoint holds of the consents, and how two of their indexes are compared.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::names::Names;
use super::{Class, CoverIndex, Covers, Given, Stretch};
use crate::checkpoint::{Loading, Section, Sections};
use crate::image::{Teller, bytes_of};
use crate::stored::{Bytes, Stored, Unsound};
use crate::tree::SharedTree;
use daftar_domain::consent::ConsentId;

impl Stored for Class {
    fn put(&self, to: &mut Vec<u8>) {
        (self.organization, self.purpose, self.fields).put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        let (organization, purpose, fields) = Stored::take(from)?;
        Ok(Self { organization, purpose, fields })
    }
}

impl Stored for Given {
    fn put(&self, to: &mut Vec<u8>) {
        let Self { id, organization, purpose, fields, first, last, opens_subject, opens_memberships } = self;
        to.extend_from_slice(&id.to_bytes());
        (*organization, *purpose, *fields).put(to);
        (*first, *last).put(to);
        (*opens_subject, *opens_memberships).put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        let id = ConsentId::from_bytes(from.array()?);
        let (organization, purpose, fields) = Stored::take(from)?;
        let (first, last) = Stored::take(from)?;
        let (opens_subject, opens_memberships) = Stored::take(from)?;
        Ok(Self { id, organization, purpose, fields, first, last, opens_subject, opens_memberships })
    }
}

impl CoverIndex {
    /// What a checkpoint holds of it.
    pub(crate) fn store(&self, checkpoint: &mut dyn Sections) -> io::Result<()> {
        let Self { names, given, classes, individuals, groups, memberships, beneficiaries, answers: _ } = self;
        checkpoint.section(Section::CoverNames)?.add(&|to| names.put(to))?;
        given.store(checkpoint.section(Section::CoverGiven)?)?;
        classes.store(checkpoint.section(Section::CoverClasses)?)?;
        individuals.store(checkpoint.section(Section::CoveredIndividuals)?)?;
        groups.store(checkpoint.section(Section::CoveredGroups)?)?;
        memberships.store(checkpoint.section(Section::CoveredMemberships)?)?;
        beneficiaries.store(checkpoint.section(Section::Beneficiaries)?)
    }

    /// What a checkpoint held.
    pub(crate) fn load(checkpoint: &Loading<'_>) -> Result<Self, Unsound> {
        Ok(Self {
            names: checkpoint.read(Section::CoverNames, |frames| frames.one())?,
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
pub(super) struct Texts {
    pub(super) organizations: BTreeMap<u32, Arc<str>>,
    pub(super) purposes: BTreeMap<u32, Arc<str>>,
    pub(super) fields: BTreeMap<u32, Option<Vec<String>>>,
}

impl Texts {
    fn bytes_of_class(&self, class: Class) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.organizations.get(&class.organization).cloned().put(&mut bytes);
        self.purposes.get(&class.purpose).cloned().put(&mut bytes);
        match self.fields.get(&class.fields) {
            None => bytes.push(2),
            Some(names) => names.put(&mut bytes),
        }
        bytes
    }
}

impl Stored for Names {
    fn put(&self, to: &mut Vec<u8>) {
        let Texts { organizations, purposes, fields } = self.texts();
        organizations.into_iter().collect::<Vec<_>>().put(to);
        purposes.into_iter().collect::<Vec<_>>().put(to);
        fields.into_iter().collect::<Vec<_>>().put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        let organizations: Vec<(u32, Arc<str>)> = Stored::take(from)?;
        let purposes: Vec<(u32, Arc<str>)> = Stored::take(from)?;
        let fields: Vec<(u32, Option<Vec<String>>)> = Stored::take(from)?;
        Ok(Self::of_texts(organizations, purposes, fields))
    }
}
