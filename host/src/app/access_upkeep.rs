//! Keeps up what tells who calls: keys, the cache of tokens, the ages of secrets.

use std::sync::Arc;
use std::time::Duration;

use daftar_auth::{ClientDirectory, KeyRing, TokenCache};
use daftar_domain::audit::Actor;
use daftar_domain::calendar;
use daftar_domain::context::trail::Trail;
use daftar_domain::context::{Clock, IdSource, OpContext};
use daftar_service::signing_key::SigningKeyAdministration;

/// How often it is looked whether something is over.
const INTERVAL: Duration = Duration::from_secs(60);
/// How many clients with old secrets the log names each day; the others are counted.
const NAMED_MAX: usize = 20;

/// Drops signing keys whose last token has expired. One that cannot be dropped is accepted no more all the same.
pub(super) async fn drop_expired(signing_keys: &SigningKeyAdministration, ctx: &OpContext) {
    if let Err(error) = signing_keys.drop_expired(ctx).await {
        tracing::warn!(error = %error, "signing keys whose tokens are over cannot be dropped; their tokens are refused all the same");
    }
}

/// What is kept up, and by which settings.
pub(super) struct AccessUpkeep {
    pub(super) ring: Arc<KeyRing>,
    pub(super) signing_keys: SigningKeyAdministration,
    pub(super) tokens: Arc<TokenCache>,
    pub(super) directory: Arc<ClientDirectory>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdSource>,
    /// Past how many days a secret is warned of; never where absent.
    pub(super) warning_days: Option<u32>,
}

impl AccessUpkeep {
    /// Works until it is dropped. At the start [`Self::warn_of_old_secrets`] was called already.
    pub(super) async fn keep_up(self) {
        let mut ticks = tokio::time::interval(INTERVAL);
        let mut warned_on = calendar::utc_day(self.clock.now());
        loop {
            ticks.tick().await;
            let now = self.clock.now();
            self.tokens.prune(&self.ring.load(), now);
            let ctx = OpContext::unbound(Actor::System, self.ids.next_id().into(), now, Trail::default());
            drop_expired(&self.signing_keys, &ctx).await;
            let today = calendar::utc_day(now);
            if std::mem::replace(&mut warned_on, today) != today {
                self.warn_of_old_secrets();
            }
        }
    }

    /// Once at the start and once a day: a secret that nobody changes is known to more people each year.
    pub(super) fn warn_of_old_secrets(&self) {
        let (Some(days), now) = (self.warning_days, self.clock.now()) else { return };
        let clients = self.directory.all();
        let overdue: Vec<_> = clients.iter().filter(|client| client.has_overdue_secret(now, days)).collect();
        for client in overdue.iter().take(NAMED_MAX) {
            let age_days = client.secrets.iter().map(|secret| secret.age_days(now)).max().unwrap_or_default();
            tracing::warn!(
                client.id = %client.id,
                secret.age_days = age_days,
                "a client's secret is old: give it another with `daftar client rotate-secret`"
            );
        }
        if overdue.len() > NAMED_MAX {
            let more = overdue.len() - NAMED_MAX;
            tracing::warn!(clients = more, "more clients have old secrets; `daftar client list` shows them");
        }
    }
}
