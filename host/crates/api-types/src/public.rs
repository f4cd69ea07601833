//! Bodies of the public API.
//!
//! A response borrows its texts where the server has them, and owns them where a client has read it. The derived schemas leave objects open;
//! the OpenAPI document closes them in one place (`openapi/shape.rs` of the HTTP crate).

pub mod batch;
pub mod concept_group;
pub mod eligibility;
pub mod page;
pub mod preview;
pub mod record;
pub mod server;
pub mod vocabulary;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use utoipa::ToSchema;
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::Schema;

    use super::*;

    fn examples_of<T: ToSchema>() -> Vec<Value> {
        match T::schema() {
            RefOr::T(Schema::Object(object)) => object.examples,
            RefOr::T(Schema::AllOf(parts)) => parts.examples,
            RefOr::T(_) | RefOr::Ref(_) => Vec::new(),
        }
    }

    /// Each example is what the type reads and writes, with no member left out.
    #[track_caller]
    fn holds<T: Serialize + DeserializeOwned + ToSchema + Debug>() {
        let examples = examples_of::<T>();
        assert!(!examples.is_empty(), "{} has no example", T::name());
        for example in examples {
            let read: T =
                serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{}: {error}", T::name()));
            assert_eq!(serde_json::to_value(&read).unwrap(), example, "{}", T::name());
        }
    }

    #[test]
    fn examples_have_the_form_of_their_types() {
        holds::<batch::BatchAnswer<'_>>();
        holds::<concept_group::ConceptGroup<'_>>();
        holds::<eligibility::Validated<'_>>();
        holds::<eligibility::Evaluated<'_>>();
        holds::<eligibility::Explanation<'_>>();
        holds::<eligibility::Diagnostic<'_>>();
        holds::<page::Links>();
        holds::<preview::Previewed<'_>>();
        holds::<preview::PreviewSubject<'_>>();
        holds::<preview::PreviewProgress>();
        holds::<record::Identifier<'_>>();
        holds::<record::Code<'_>>();
        holds::<record::Meta<'_>>();
        holds::<server::Token<'_>>();
        holds::<server::TokenError<'_>>();
        holds::<server::AuthorizationServer<'_>>();
        holds::<vocabulary::Vocabulary<'_>>();
        holds::<vocabulary::Concept<'_>>();
        holds::<vocabulary::FoundCode<'_>>();
        holds::<vocabulary::Subsumption<'_>>();
        holds::<vocabulary::Validities<'_>>();
        holds::<vocabulary::LookedUp<'_>>();
    }
}
