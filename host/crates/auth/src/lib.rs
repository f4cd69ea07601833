//! Authentication: token issuing and verification, client lookup, secrets, signing keys, rate limits.
//!
//! A token request passes `token_request` (parse) → `issue` (check, sign); every other call passes `authenticate`
//! (token, client, effective scopes). The caller charges the rate limits between the two. `key_ring` rotates the keys
//! that sign tokens and seal decisions, `token_cache` caches verified tokens, `failed_sign_ins` throttles brute-force
//! attempts.
//!
//! **Invariant:** no HTTP here: input is bytes and header values, output is values and reasons.
//!
//! **Invariant:** secrets and keys have types that do not print themselves, and are compared in constant time.
//!
//! **Invariant:** the time is the `now` parameter, or that of a `Clock`, never the machine's clock.

pub mod admin_token;
pub mod authenticate;
pub mod cursor_seal;
pub mod decision_key;
pub mod directory;
mod entropy;
pub mod failed_sign_ins;
#[cfg(test)]
mod fixtures;
pub mod issue;
mod key_file;
pub mod key_folder;
pub mod key_ring;
pub mod keys;
pub mod limits;
pub mod oauth_error;
pub mod secret;
pub mod secret_file;
pub mod token;
pub mod token_cache;
pub mod token_request;

pub use admin_token::AdminToken;
pub use authenticate::{AuthFault, AuthFaultKind, Authenticated, Authenticator, ChargedTo, authenticate};
pub use cursor_seal::CursorSeal;
pub use directory::ClientDirectory;
pub use entropy::EntropyError;
pub use failed_sign_ins::FailedSignIns;
pub use issue::{IssuedResponse, TokenIssuer};
pub use key_ring::{DecisionKeyRing, KeyRing, Rotation, RotationError, SigningKeyRings};
pub use keys::{KeyError, TokenKeys};
pub use oauth_error::{OAuthError, OAuthErrorCode};
pub use secret::SecretHasher;
pub use token_cache::{TokenCache, TokenCacheBounds};
pub use token_request::{TokenRequest, TokenRequestParts};
