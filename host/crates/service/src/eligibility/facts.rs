//! What is known of a subject: from the register, or as given in the request.

use crate::program_membership::MembershipView;
use crate::visibility::Seen;
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::field::FieldSet;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::program_membership::{FIELDS, PROGRAM};
use daftar_domain::schema::Field;
use daftar_domain::value::{self, Values};

/// A person as a rule sees one.
#[derive(Debug, Clone)]
pub enum Person {
    /// From the register, with what the rule may see of it.
    Stored(Seen<IndividualDetails>),
    /// As given in the request.
    Inline(Box<IndividualDetails>),
}

impl Person {
    /// What is known.
    #[must_use]
    pub fn details(&self) -> &IndividualDetails {
        match self {
            Self::Stored(seen) => &seen.record.details,
            Self::Inline(details) => details,
        }
    }

    /// What of it the rule may see.
    #[must_use]
    pub fn fields(&self) -> &FieldSet {
        match self {
            Self::Stored(seen) => &seen.fields,
            Self::Inline(_) => &FieldSet::All,
        }
    }
}

/// A person with its place in the household.
#[derive(Debug, Clone)]
pub struct PersonInHousehold {
    /// Who.
    pub person: Person,
    /// As what; missing where it is not recorded or not known.
    pub role: Option<CodedValue>,
}

/// The subject itself.
#[derive(Debug, Clone)]
pub enum Me {
    /// A person.
    Person(PersonInHousehold),
    /// A group of the register, with what the rule may see of it.
    StoredGroup(Seen<GroupDetails>),
    /// A group as given in the request.
    InlineGroup(Box<GroupDetails>),
}

/// Who lives in the subject's household.
#[derive(Debug, Clone)]
pub enum Members {
    /// These; none is an answer too.
    Known(Vec<PersonInHousehold>),
    /// It cannot be said: the person is in several households, or the request does not say.
    Unknown,
}

/// Everything that is known of a subject.
#[derive(Debug, Clone)]
pub struct SubjectFacts {
    /// The subject.
    pub me: Me,
    /// Its household.
    pub members: Members,
    /// Its memberships in programs.
    pub programs: Programs,
}

/// In which programs the subject is or was.
#[derive(Debug, Clone)]
pub enum Programs {
    /// In these; none is an answer too.
    Known(Vec<MembershipFact>),
    /// It cannot be said.
    Unknown,
}

/// One membership as a rule sees it.
#[derive(Debug, Clone)]
pub struct MembershipFact {
    /// `Program/<system>|<value>`
    pub program: Option<String>,
    /// The other fields that rules use, as far as the rule may see them.
    pub values: Values,
}

impl From<&MembershipView> for MembershipFact {
    fn from(view: &MembershipView) -> Self {
        let fields = value::in_order(FIELDS, view.membership.details.iter());
        let is_told = |field: &Field| field.in_rules && field.tag != PROGRAM.tag() && view.fields.allows(field.name);
        let told = fields.filter(|(field, _)| is_told(field));
        let values = told.map(|(field, value)| (field.tag, value.clone())).collect();
        Self { program: view.fields.allows("program").then(|| view.program.clone()), values }
    }
}

/// A person given in a request, its codes not checked yet.
#[derive(Debug, Clone)]
pub struct InlinePerson {
    /// What is said of it.
    pub details: IndividualDetails<CodeUri, IdentifierKey>,
    /// Its place in the household.
    pub role: Option<CodeUri>,
}

/// A subject given in a request.
#[derive(Debug, Clone)]
pub struct InlineSubject {
    /// The subject.
    pub me: InlineMe,
    /// Its household, where the request says it.
    pub members: Option<Vec<InlinePerson>>,
    /// Its memberships in programs, where the request says them.
    pub programs: Option<Vec<MembershipFact>>,
}

impl InlineSubject {
    /// How many people it tells of.
    #[must_use]
    pub fn people(&self) -> usize {
        let itself = match self.me {
            InlineMe::Person(_) => 1,
            InlineMe::Group(_) => 0,
        };
        itself + self.members.as_ref().map_or(0, Vec::len)
    }
}

/// The subject itself, as given.
#[derive(Debug, Clone)]
pub enum InlineMe {
    /// A person.
    Person(Box<InlinePerson>),
    /// A group; its `members` stand beside it.
    Group(Box<GroupDetails<CodeUri, IdentifierKey>>),
}
