//! The cryptography of access tokens: HS256 by `ring`, which TLS uses as well.
//!
//! `jsonwebtoken` brings no cryptography of its own choice that fits: its all-Rust one compiles RSA and elliptic curves for algorithms that
//! no token here has.
//!
//! **Invariant:** nothing but HS256 can be signed or verified, whatever the caller asks for.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::hmac;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| Ok(Box::new(Hs256::new(*algorithm, key.as_bytes())?)),
    verifier_factory: |algorithm, key| Ok(Box::new(Hs256::new(*algorithm, key.try_get_as_bytes()?)?)),
    // Keys are never read from or written as JWK.
    key_utils: KeyUtils::new_unimplemented(),
};

/// The keys of a secret, ready to sign and to verify.
pub(super) fn keys_of(secret: &[u8]) -> (EncodingKey, DecodingKey) {
    // The first call in the process installs it; it is the same for every later one.
    let _is_first = PROVIDER.install_default().is_ok();
    (EncodingKey::from_secret(secret), DecodingKey::from_secret(secret))
}

/// HMAC with SHA-256 (RFC 7518 §3.2) under one key.
struct Hs256(hmac::Key);

impl Hs256 {
    fn new(algorithm: Algorithm, secret: &[u8]) -> Result<Self> {
        if algorithm != Algorithm::HS256 {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    /// Compares in constant time.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| Error::new())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_as_the_example_of_rfc_7515_does() {
        // RFC 7515, appendix A.1: the key, the signing input and the signature.
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let message = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
            eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let secret = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, key).unwrap();
        let (encoding, decoding) = keys_of(&secret);
        assert_eq!(jsonwebtoken::crypto::sign(message.as_bytes(), &encoding, Algorithm::HS256).unwrap(), signature);
        let verify = |signature: &str, algorithm| {
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), &decoding, algorithm)
        };
        assert!(verify(signature, Algorithm::HS256).unwrap());
        assert!(!verify(&signature.replace('d', "e"), Algorithm::HS256).unwrap());
        assert!(!verify("", Algorithm::HS256).unwrap());
        verify(signature, Algorithm::HS384).unwrap_err();
        jsonwebtoken::crypto::sign(b"", &encoding, Algorithm::HS512).unwrap_err();
    }
}
