//! Grants of a client: scopes, each with the fields that it gives access to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::field::FieldSet;
use super::scope::{Scope, ScopeSet};

/// Scopes with their fields, each scope once, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants(Arc<BTreeMap<Scope, FieldSet>>);

impl Grants {
    /// Returns the scopes.
    #[must_use]
    pub fn scopes(&self) -> ScopeSet {
        self.0.keys().copied().collect()
    }

    /// Grants a scope; replaces the fields of a scope that is already granted.
    pub fn insert(&mut self, scope: Scope, fields: FieldSet) {
        Arc::make_mut(&mut self.0).insert(scope, fields);
    }

    /// Revokes a grant; returns false if there was none.
    pub fn remove(&mut self, scope: Scope) -> bool {
        Arc::make_mut(&mut self.0).remove(&scope).is_some()
    }

    /// True if exactly this scope is granted; `:all` does not imply the others here.
    #[must_use]
    pub fn contains(&self, scope: Scope) -> bool {
        self.0.contains_key(&scope)
    }

    /// Returns the union of the fields of all grants that cover a scope: all fields if one grant is unrestricted; only
    /// the fields that are always included if none covers it.
    #[must_use]
    pub fn fields(&self, scope: Scope) -> FieldSet {
        let covering = self.0.iter().filter(|(held, _)| held.covers(scope));
        covering.fold(FieldSet::none(), |all, (_, fields)| all.union(fields))
    }

    /// Returns every grant, in the order of scopes.
    pub fn iter(&self) -> impl Iterator<Item = (Scope, &FieldSet)> + '_ {
        self.0.iter().map(|(scope, fields)| (*scope, fields))
    }
}

impl FromIterator<(Scope, FieldSet)> for Grants {
    fn from_iter<I: IntoIterator<Item = (Scope, FieldSet)>>(grants: I) -> Self {
        Self(Arc::new(grants.into_iter().collect()))
    }
}

impl FromIterator<Scope> for Grants {
    /// Creates unrestricted grants.
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().map(|scope| (scope, FieldSet::All)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldName;
    use crate::scope::Resource;

    fn scope(text: &str) -> Scope {
        Scope::parse(text).unwrap()
    }

    fn only(names: &[&str]) -> FieldSet {
        FieldSet::only(names.iter().map(|name| FieldName::parse(Resource::Individual, name).unwrap()))
    }

    #[test]
    fn fields_are_united_by_action_and_an_unrestricted_grant_includes_all() {
        let mut grants: Grants =
            [(scope("individual:read"), only(&["name"])), (scope("individual:all"), only(&["gender"]))]
                .into_iter()
                .collect();
        assert_eq!(grants.fields(scope("individual:read")), only(&["gender", "name"]));
        assert_eq!(grants.fields(scope("individual:update")), only(&["gender"]));
        assert_eq!(grants.fields(scope("group:read")), FieldSet::none());
        grants.insert(scope("individual:read"), FieldSet::All);
        assert_eq!(grants.fields(scope("individual:read")), FieldSet::All);
        assert_eq!(grants.fields(scope("individual:update")), only(&["gender"]), "another action is unchanged");
    }

    #[test]
    fn a_repeated_grant_of_a_scope_replaces_its_fields() {
        let mut grants: Grants = [scope("individual:read")].into_iter().collect();
        grants.insert(scope("individual:read"), only(&["name"]));
        assert_eq!(grants.fields(scope("individual:read")), only(&["name"]));
        assert_eq!(grants.scopes().to_string(), "individual:read");
        assert!(grants.remove(scope("individual:read")) && !grants.remove(scope("individual:read")));
        assert!(!grants.contains(scope("individual:read")));
    }
}
