//! The signing keys and the clients of tokens that are not known here: other processes make them too.

use std::time::Duration;

use tokio::time::Instant;

use super::Follower;
use daftar_domain::error::AppError;

/// The least time between two searches for an unknown key, or two refreshes of clients.
const LOOKS_APART: Duration = Duration::from_millis(100);

impl Follower {
    /// Looks whether another process wrote a signing key that is not known here. For tokens and decisions of unknown keys: whoever sends many of them
    /// does not make this process read its disk for each, as one look is for all that wait for it.
    pub async fn look_for_key(&self) {
        let asked = Instant::now();
        let mut looked = self.looked_for_key.lock().await;
        if looked.is_some_and(|began| began >= asked) {
            return;
        }
        if let Some(pause) = looked.and_then(|began| LOOKS_APART.checked_sub(began.elapsed())) {
            tokio::time::sleep(pause).await;
        }
        *looked = Some(Instant::now());
        self.take_up_keys().await;
    }

    /// Refreshes clients for requests with a valid token whose client is unknown here, or seems to be disabled. As with [`Self::look_for_key`]
    /// all requests that wait share one refresh: refused requests do not cost a query each.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refresh_clients(&self) -> Result<(), AppError> {
        let asked = Instant::now();
        let mut looked = self.clients_refreshed.lock().await;
        if looked.is_some_and(|began| began >= asked) {
            return Ok(());
        }
        if let Some(pause) = looked.and_then(|began| LOOKS_APART.checked_sub(began.elapsed())) {
            tokio::time::sleep(pause).await;
        }
        let began = Instant::now();
        self.compare().await?;
        *looked = Some(began);
        Ok(())
    }

    pub(super) async fn take_up_keys(&self) -> bool {
        let rings = self.rings.clone();
        match tokio::task::spawn_blocking(move || rings.take_up()).await {
            Ok(Ok(is_new)) => {
                if is_new {
                    tracing::info!("signing keys that another process wrote are in force");
                }
                is_new
            }
            Ok(Err(error)) => {
                tracing::warn!(error = %error, "the signing keys cannot be read anew; those that were read before stay in force");
                false
            }
            Err(error) => {
                tracing::warn!(error = %error, "the signing keys cannot be read anew; those that were read before stay in force");
                false
            }
        }
    }
}
