//! Vocabularies in memory: lookup, hierarchy, concept groups, versions, the generation that a request keeps.
