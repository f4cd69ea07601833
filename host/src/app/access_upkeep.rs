//! Keeps up what tells who calls: keys and the cache of tokens.

use std::sync::Arc;
use std::time::Duration;

use crate::auth::{KeyRing, TokenCache};
use crate::context::trail::Trail;
use crate::context::{Clock, IdSource, OpContext};
use crate::domain::audit::Actor;
use crate::service::signing_key::SigningKeyAdministration;

/// How often it is looked whether something is over.
const INTERVAL: Duration = Duration::from_secs(60);

/// Drops signing keys whose last token has expired. One that cannot be dropped is accepted no more all the same.
pub(super) async fn drop_expired(signing_keys: &SigningKeyAdministration, ctx: &OpContext) {
    if let Err(error) = signing_keys.drop_expired(ctx).await {
        tracing::warn!(error = %error, "signing keys whose tokens are over cannot be dropped; their tokens are refused all the same");
    }
}

/// What is kept up.
pub(super) struct AccessUpkeep {
    pub(super) ring: Arc<KeyRing>,
    pub(super) signing_keys: SigningKeyAdministration,
    pub(super) tokens: Arc<TokenCache>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdSource>,
}

impl AccessUpkeep {
    /// Works until it is dropped.
    pub(super) async fn keep_up(self) {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            let now = self.clock.now();
            self.tokens.prune(&self.ring.load(), now);
            let ctx = OpContext::unbound(Actor::System, self.ids.next_id().into(), now, Trail::default());
            drop_expired(&self.signing_keys, &ctx).await;
        }
    }
}
