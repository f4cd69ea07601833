//! Giving a client another secret.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;

use super::{ClientAdministration, Tokens, refuse_tokens_until};
use daftar_auth::secret::new_client_secret;
use daftar_domain::client::{Client, ClientId, ClientSecret};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;

/// The most secrets that a client has at a time: as many as a check compares for any client.
pub const SECRETS_MAX: usize = 4;
/// The longest that an old secret stays good beside a new one, in seconds: a month.
pub const OVERLAP_S_MAX: u32 = 30 * 86_400;

/// A client with its new secret.
pub struct RotatedSecret {
    /// The client.
    pub client: Arc<Client>,
    /// Its new secret, told here and never again.
    pub secret: SecretString,
    /// Until when its older secrets are good; absent where it has none.
    pub older_expire_at: Option<Timestamp>,
}

impl ClientAdministration {
    /// Gives a client another secret. The older ones stay good for so many seconds; with 0 they are refused at once, and so are
    /// the tokens that the client holds.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`]; [`AppError::Conflict`] when it has so many secrets that are still good that there is no room
    /// for another; when no random bytes are had or the store fails.
    pub async fn rotate_secret(
        &self,
        ctx: &OpContext,
        id: &ClientId,
        overlap_s: u32,
    ) -> Result<RotatedSecret, AppError> {
        self.show(id)?;
        let secret = new_client_secret().map_err(|error| AppError::Unavailable(error.into()))?;
        let hash = self.hasher.hash(id.as_str(), &secret);
        let rotate = move |client: &mut Client, now: Timestamp| {
            let until = now.saturating_add(SignedDuration::from_secs(i64::from(overlap_s))).unwrap_or(now);
            client.secrets.retain(|old| old.expires_at.is_none_or(|expires_at| now < expires_at));
            if overlap_s == 0 {
                client.secrets.clear();
                refuse_tokens_until(client, now);
            }
            if client.secrets.len() >= SECRETS_MAX {
                return Err(AppError::Conflict(ErrorCode::LimitReached, too_many(client)));
            }
            for old in &mut client.secrets {
                old.expires_at = Some(old.expires_at.map_or(until, |expires_at| expires_at.min(until)));
            }
            client.secrets.push(ClientSecret { hash, created_at: now, expires_at: None });
            Ok(())
        };
        let note = match overlap_s {
            0 => "got another secret; the older ones and its tokens are refused from now on".to_owned(),
            seconds => format!("got another secret; the older ones are good for {seconds} s more"),
        };
        let tokens = if overlap_s == 0 { Tokens::Ended } else { Tokens::Kept };
        let client = self.change(ctx, id, note, (tokens, rotate)).await?;
        let older_expire_at = client.secrets.iter().filter_map(|old| old.expires_at).max();
        Ok(RotatedSecret { client, secret, older_expire_at })
    }
}

fn too_many(client: &Client) -> String {
    let next = client.secrets.iter().filter_map(|old| old.expires_at).min();
    let next = next.map(|at| format!("wait until {at}, when the first of them ends, or ")).unwrap_or_default();
    format!(
        "`{}` has {} secrets that are good: {next}rotate without an overlap, which ends them all",
        client.id,
        client.secrets.len()
    )
}
