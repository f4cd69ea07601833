//! OAuth scopes: `<resource>:<action>`.

use std::collections::BTreeSet;
use std::fmt;

named_enum! {
    /// The resource of a scope.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Resource {
        /// Individuals.
        Individual = "individual",
        /// Households and other groups.
        Group = "group",
        /// Programs.
        Program = "program",
        /// Memberships in programs.
        ProgramMembership = "program_membership",
        /// Consents.
        Consent = "consent",
        /// Vocabularies and concept groups.
        Vocabulary = "vocabulary",
        /// Rules.
        Eligibility = "eligibility",
        /// Identifiers; can be granted and has no effect.
        Identifier = "identifier",
    }
}

named_enum! {
    /// The action of a scope on its resource.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Action {
        /// Read one record.
        Read = "read",
        /// Search.
        Search = "search",
        /// Create.
        Create = "create",
        /// Change.
        Update = "update",
        /// Delete or withdraw.
        Delete = "delete",
        /// All other actions.
        All = "all",
    }
}

/// Error: a text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a scope: write `<resource>:<action>` with a resource of {resources} and an action of {actions}", resources = Resource::NAMES.join(", "), actions = Action::NAMES.join(", "))]
pub struct ScopeError {
    text: String,
}

/// One scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The resource.
    pub resource: Resource,
    /// The action.
    pub action: Action,
}

impl Scope {
    /// Creates a scope.
    #[must_use]
    pub const fn new(resource: Resource, action: Action) -> Self {
        Self { resource, action }
    }

    /// Parses `<resource>:<action>`.
    ///
    /// # Errors
    /// Either half is unknown; the message lists the known ones.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        let parsed = text.split_once(':').and_then(|(resource, action)| {
            Some(Self { resource: Resource::parse(resource)?, action: Action::parse(action)? })
        });
        parsed.ok_or_else(|| ScopeError { text: text.chars().take(80).filter(|shown| !shown.is_control()).collect() })
    }

    /// True if this scope includes the other: the same, or `:all` of the same resource.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.resource == other.resource && (self.action == other.action || self.action == Action::All)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.resource.name(), self.action.name())
    }
}

/// Scopes, each once, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScopeSet(BTreeSet<Scope>);

impl ScopeSet {
    /// True if any scope of the set covers `wanted`.
    #[must_use]
    pub fn covers(&self, wanted: Scope) -> bool {
        self.0.iter().any(|held| held.covers(wanted))
    }

    /// Returns the intersection: each scope of either set that the other covers, without those implied by an `:all`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let ours = self.0.iter().filter(|scope| other.covers(**scope));
        let theirs = other.0.iter().filter(|scope| self.covers(**scope));
        let both: Self = ours.chain(theirs).copied().collect();
        let is_said =
            |scope: &Scope| scope.action != Action::All && both.contains(Scope::new(scope.resource, Action::All));
        both.iter().filter(|scope| !is_said(scope)).collect()
    }

    /// Adds a scope; returns false if it was present.
    pub fn insert(&mut self, scope: Scope) -> bool {
        self.0.insert(scope)
    }

    /// True if exactly this scope is in the set; `:all` does not imply the others here.
    #[must_use]
    pub fn contains(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// Returns the scopes, in their fixed order.
    pub fn iter(&self) -> impl Iterator<Item = Scope> + '_ {
        self.0.iter().copied()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl fmt::Display for ScopeSet {
    /// Formats the scopes separated by spaces, as in OAuth.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(" ")?;
            }
            write!(formatter, "{scope}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> ScopeSet {
        texts.iter().map(|text| Scope::parse(text).unwrap()).collect()
    }

    #[test]
    fn every_pair_reads_back_as_written() {
        for resource in Resource::ALL {
            for action in Action::ALL {
                let scope = Scope::new(resource, action);
                assert_eq!(Scope::parse(&scope.to_string()), Ok(scope));
            }
        }
        for wrong in ["individual", "individual:", ":read", "Individual:read", "individual:read ", "person:read"] {
            assert!(Scope::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_covers_the_others_of_its_resource_only() {
        let held = set(&["individual:all"]);
        assert!(held.covers(Scope::parse("individual:read").unwrap()));
        assert!(!held.covers(Scope::parse("group:read").unwrap()));
        assert!(!set(&["individual:read"]).covers(Scope::parse("individual:all").unwrap()));
    }

    #[test]
    fn an_intersection_goes_by_coverage() {
        let token = set(&["individual:all", "group:read"]);
        let grants = set(&["individual:read", "individual:create", "group:all"]);
        assert_eq!(token.intersection(&grants).to_string(), "individual:read individual:create group:read");
        assert_eq!(set(&["group:all", "group:read"]).intersection(&set(&["group:all"])).to_string(), "group:all");
    }
}
