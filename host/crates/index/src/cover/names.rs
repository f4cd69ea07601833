//! Numbers for what consents repeat: organizations, purposes and lists of fields.
//!
//! **Invariant:** a number never changes its meaning and is never given twice; 0 stands for no purpose in particular.

use std::sync::Arc;

use super::kept::Texts;
use crate::codes::sorted_once;
use crate::tree::SharedTree;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::scope::Resource;

/// The number of a purpose where none in particular is meant.
pub(super) const ANY_PURPOSE: u32 = 0;

/// Field names as consents list them, sorted, each once; none at all means every field.
type FieldNames = Option<Arc<[String]>>;

/// What has a number, cheap to copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    organizations: SharedTree<Arc<str>, u32>,
    purposes: SharedTree<Arc<str>, u32>,
    numbers_of_fields: SharedTree<FieldNames, u32>,
    fields: SharedTree<u32, FieldNames>,
    /// The last number given, to whatever.
    last: u32,
}

impl Names {
    /// The number of an organization.
    pub(super) fn organization(&self, name: &str) -> Option<u32> {
        self.organizations.get(name).copied()
    }

    /// The number of a purpose.
    pub(super) fn purpose(&self, text: &str) -> Option<u32> {
        self.purposes.get(text.trim()).copied()
    }

    /// The number of an organization, a new one where it has none yet.
    pub(super) fn number_organization(&mut self, name: &str) -> u32 {
        self.organization(name).unwrap_or_else(|| {
            let number = self.next();
            self.organizations.insert(name.into(), number);
            number
        })
    }

    /// The number of a purpose, a new one where it has none yet.
    pub(super) fn number_purpose(&mut self, text: &str) -> u32 {
        self.purpose(text).unwrap_or_else(|| {
            let number = self.next();
            self.purposes.insert(text.trim().into(), number);
            number
        })
    }

    /// The number of a list of fields, a new one where it has none yet.
    pub(super) fn number_fields(&mut self, names: Option<&[String]>) -> u32 {
        let names: FieldNames = names.map(|names| sorted_once(names.iter().cloned()).into());
        if let Some(number) = self.numbers_of_fields.get(&names) {
            return *number;
        }
        let number = self.next();
        self.numbers_of_fields.insert(names.clone(), number);
        self.fields.insert(number, names);
        number
    }

    /// Those of a numbered list that are fields of a resource's records.
    pub(super) fn fields(&self, number: u32, resource: Resource) -> FieldSet {
        match self.fields.get(&number) {
            Some(None) => FieldSet::All,
            Some(Some(names)) => FieldSet::only(names.iter().filter_map(|name| FieldName::parse(resource, name).ok())),
            None => FieldSet::none(),
        }
    }

    /// What every number stands for.
    pub(super) fn texts(&self) -> Texts {
        let by_number = |names: &SharedTree<Arc<str>, u32>| {
            names.iter().map(|(name, number)| (*number, name.to_string())).collect()
        };
        let fields = self.fields.iter().map(|(number, names)| (*number, names.as_ref().map(|names| names.to_vec())));
        Texts {
            organizations: by_number(&self.organizations),
            purposes: by_number(&self.purposes),
            fields: fields.collect(),
        }
    }

    /// Names whose numbers are known.
    pub(super) fn of_texts(texts: Texts) -> Self {
        let mut names = Self::default();
        for (number, name) in texts.organizations {
            names.organizations.insert(name.into(), number);
            names.last = names.last.max(number);
        }
        for (number, text) in texts.purposes {
            names.purposes.insert(text.into(), number);
            names.last = names.last.max(number);
        }
        for (number, list) in texts.fields {
            let list: FieldNames = list.map(Arc::from);
            names.numbers_of_fields.insert(list.clone(), number);
            names.fields.insert(number, list);
            names.last = names.last.max(number);
        }
        names
    }

    fn next(&mut self) -> u32 {
        // A register would need four thousand million different names to come to the end.
        self.last = self.last.saturating_add(1);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_has_one_number() {
        let mut names = Names::default();
        let health = names.number_organization("Ministry of Health");
        assert_eq!(names.number_organization("Ministry of Health"), health);
        assert_ne!(names.number_organization("Ministry of health"), health);
        assert_eq!((names.organization("Ministry of Health"), names.organization("Nobody")), (Some(health), None));
        let meals = names.number_purpose(" school meals ");
        assert_eq!((names.purpose("school meals"), names.purpose("meals")), (Some(meals), None));
        assert_ne!(meals, ANY_PURPOSE);
    }

    #[test]
    fn a_list_of_fields_is_read_for_each_resource() {
        let mut names = Names::default();
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let some = names.number_fields(Some(&list(&["name", "birth_date", "status"])));
        assert_eq!(names.number_fields(Some(&list(&["status", "birth_date", "name", "name"]))), some);
        let every = names.number_fields(None);
        assert_eq!(names.fields(every, Resource::Group), FieldSet::All);
        let only = |resource, wanted: &[&str]| {
            FieldSet::only(wanted.iter().map(|name| FieldName::parse(resource, name).unwrap()))
        };
        assert_eq!(names.fields(some, Resource::Individual), only(Resource::Individual, &["name", "birth_date"]));
        assert_eq!(names.fields(some, Resource::Group), only(Resource::Group, &["name"]));
        assert_eq!(names.fields(some, Resource::ProgramMembership), only(Resource::ProgramMembership, &["status"]));
    }
}
