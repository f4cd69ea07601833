//! Callers of an endpoint, declared by the type of the handler's first argument.
//!
//! [`crate::api::endpoint::endpoint`] accepts only handlers whose first argument is [`Auth`] with a [`ScopeRule`],
//! [`AnyClient`], [`Public`], [`PageCall`], [`TokenCall`] or [`HealthCall`], together with their OpenAPI
//! description. Any other handler does not compile as an endpoint.

pub use super::extract::auth::{AnyClient, Auth, HealthCall, PageCall, Public, TokenCall};

use daftar_domain::scope::Scope;

/// Callers of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A client whose token grants one of these scopes.
    Scopes(&'static [Scope]),
    /// Any authenticated client, independent of its scopes.
    AnyClient,
    /// Any caller, rate limited by address.
    Public,
    /// Any caller that requests a token, rate limited by address in a bucket of its own.
    Token,
    /// Any caller, without a rate limit.
    Health,
}

/// The scopes of a handler, one of which a client must have.
pub trait ScopeRule: Send + Sync + 'static {
    /// One of these scopes is sufficient.
    const ACCEPTED: &'static [Scope];
}

/// The scope rules of the endpoints, named by the permitted operation.
pub mod scope {
    use super::ScopeRule;
    use daftar_domain::scope::{Action, Resource, Scope};

    macro_rules! rules {
        ($($(#[$doc:meta])* $name:ident = $($resource:ident $action:ident)|+;)+) => {$(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub struct $name;

            impl ScopeRule for $name {
                const ACCEPTED: &'static [Scope] = &[$(Scope::new(Resource::$resource, Action::$action)),+];
            }
        )+};
    }

    rules! {
        /// Read and search people.
        IndividualRead = Individual Read;
        /// Register people.
        IndividualCreate = Individual Create;
        /// Read groups.
        GroupRead = Group Read;
        /// Register groups.
        GroupCreate = Group Create;
        /// Read vocabularies and concept groups.
        VocabularyRead = Vocabulary Read;
        /// Change individuals.
        IndividualUpdate = Individual Update;
        /// Change groups.
        GroupUpdate = Group Update;
        /// Read programs.
        ProgramRead = Program Read;
        /// Search programs.
        ProgramSearch = Program Search | Program Read;
        /// Read memberships in programs.
        ProgramMembershipRead = ProgramMembership Read;
        /// Search memberships in programs.
        ProgramMembershipSearch = ProgramMembership Search | ProgramMembership Read;
        /// Enrol in programs.
        ProgramMembershipCreate = ProgramMembership Create;
        /// Change memberships in programs.
        ProgramMembershipUpdate = ProgramMembership Update;
        /// Read consents given to the client's organization.
        ConsentRead = Consent Read;
        /// Withdraw them.
        ConsentDelete = Consent Delete;
        /// Evaluate rules, and read rule drafts.
        EligibilityRead = Eligibility Read;
        /// Write rule drafts.
        EligibilityCreate = Eligibility Create;
    }
}

/// A list of handler arguments whose first argument declares the callers.
pub trait DeclaresAccess {
    /// Permitted callers.
    const ACCESS: Access;
}

/// An argument that declares the callers.
pub trait AccessArgument {
    /// Permitted callers.
    const ACCESS: Access;
}

impl<R: ScopeRule> AccessArgument for Auth<R> {
    const ACCESS: Access = Access::Scopes(R::ACCEPTED);
}

macro_rules! arguments {
    ($($argument:ident = $access:ident),+) => {$(
        impl AccessArgument for $argument {
            const ACCESS: Access = Access::$access;
        }
    )+};
}

arguments!(AnyClient = AnyClient, Public = Public, PageCall = Public, TokenCall = Token, HealthCall = Health);

// axum represents a handler's arguments as a tuple that begins with a marker of its own.
macro_rules! declares_access {
    ($(($($argument:ident),*))+) => {$(
        impl<M, A: AccessArgument, $($argument),*> DeclaresAccess for (M, A, $($argument),*) {
            const ACCESS: Access = A::ACCESS;
        }
    )+};
}

declares_access! { () (T1) (T1, T2) (T1, T2, T3) (T1, T2, T3, T4) }

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use axum::extract::State;
    use axum::handler::Handler;
    use axum::http::Method;

    use super::*;
    use crate::api::endpoint::{Endpoint, below, endpoint};
    use crate::api::openapi::{Operation, individual};
    use crate::state::AppState;

    async fn of_the_scope(_: Auth<scope::IndividualRead>, _: State<AppState>) -> &'static str {
        "personal data"
    }

    async fn of_any_caller() -> &'static str {
        "personal data"
    }

    async fn of_any_caller_with_state(_: State<AppState>) -> &'static str {
        "personal data"
    }

    async fn of_the_scope_too_late(_: State<AppState>, _: Auth<scope::IndividualRead>) -> &'static str {
        "personal data"
    }

    /// The arguments of a handler, as axum represents them.
    struct Arguments<T>(PhantomData<T>);

    fn arguments<H: Handler<T, AppState>, T>(_: H) -> Arguments<T> {
        Arguments(PhantomData)
    }

    /// Selected where the arguments declare the callers: the other trait requires one more reference.
    trait Declared {
        fn access(&self) -> Option<Access>;
    }

    impl<T: DeclaresAccess> Declared for Arguments<T> {
        fn access(&self) -> Option<Access> {
            Some(T::ACCESS)
        }
    }

    trait Undeclared {
        fn access(&self) -> Option<Access>;
    }

    impl<T> Undeclared for &Arguments<T> {
        fn access(&self) -> Option<Access> {
            None
        }
    }

    #[test]
    fn a_handler_without_a_caller_as_first_argument_has_no_access() {
        let declared = &arguments(of_the_scope);
        assert_eq!(declared.access(), Some(Access::Scopes(scope::IndividualRead::ACCEPTED)));
        let undeclared = &arguments(of_any_caller);
        assert_eq!(undeclared.access(), None);
        let undeclared = &arguments(of_any_caller_with_state);
        assert_eq!(undeclared.access(), None);
        let undeclared = &arguments(of_the_scope_too_late);
        assert_eq!(undeclared.access(), None);
    }

    type Endpoints<H> = fn(Method, Vec<String>, H, fn() -> Operation) -> Endpoint;

    /// Compiles as long as an endpoint requires a handler with access and an operation of the document.
    fn signature<H, T>() -> Endpoints<H>
    where
        H: Handler<T, AppState>,
        T: DeclaresAccess + 'static,
    {
        |method, paths, handler, operation| endpoint::<H, T>(method, paths, handler, operation)
    }

    #[test]
    fn an_endpoint_has_the_access_of_its_handler() {
        let made = signature()(Method::GET, below("/Individual"), of_the_scope, individual::search);
        assert_eq!(made.access, Access::Scopes(scope::IndividualRead::ACCEPTED));
    }
}
