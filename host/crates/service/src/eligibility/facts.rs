//! What is known of a subject: from the register, or as given in the request.

use jiff::civil::Date;

use crate::program_membership::MembershipView;
use crate::visibility::Seen;
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::field::FieldSet;
use daftar_domain::group::GroupDetails;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::program_membership::MembershipStatus;

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
    /// Where it stands.
    pub status: Option<MembershipStatus>,
    /// Since when the subject takes part.
    pub enrollment_date: Option<Date>,
    /// Since when it does not any more.
    pub exit_date: Option<Date>,
    /// Why it does not any more.
    pub exit_reason: Option<String>,
}

impl From<&MembershipView> for MembershipFact {
    fn from(view: &MembershipView) -> Self {
        let (details, seen) = (&view.membership.details, &view.fields);
        Self {
            program: seen.allows("program").then(|| view.program.clone()),
            status: seen.allows("status").then_some(details.status),
            enrollment_date: details.enrollment_date.filter(|_| seen.allows("enrollment_date")),
            exit_date: details.exit_date.filter(|_| seen.allows("exit_date")),
            exit_reason: details.exit_reason.clone().filter(|_| seen.allows("exit_reason")),
        }
    }
}

/// A person given in a request, its codes not checked yet.
#[derive(Debug, Clone)]
pub struct InlinePerson {
    /// What is said of it.
    pub details: IndividualDetails<CodeUri>,
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
    Group(Box<GroupDetails<CodeUri>>),
}
