//! `[server.connections]`: how many may come at once, and how long each may take for what.
//!
//! **Invariant:** every bound is there and has a ceiling: none can be turned off.

use std::time::Duration;

use serde::Deserialize;

use super::ServerConfig;

/// A name of a setting, its value, and what it may be.
type Bound = (&'static str, u64, std::ops::RangeInclusive<u64>);

/// Bounds of the public listener's connections and requests. The defaults fit a machine with two cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionsConfig {
    /// How many connections may be open at once.
    pub max: u64,
    /// How many of them may come from one address, or from one network of 64 bits of IPv6. A trusted proxy stands for many clients
    /// and is not bound by it.
    pub per_address_max: u64,
    /// How many requests may be worked on at once.
    pub requests_max: u64,
    /// How many streams one HTTP/2 connection may have open at once.
    pub http2_streams_max: u64,
    /// How long the head of a request may take to arrive.
    pub header_timeout_ms: u64,
    /// How long the body of a request may take to arrive.
    pub body_timeout_ms: u64,
    /// How long a body that is on its way may bring nothing.
    pub body_stall_timeout_ms: u64,
    /// How long a connection may have no request.
    pub idle_timeout_ms: u64,
    /// Half of the time in which a client has to take a small response, and over which the rate is averaged at which it takes others.
    pub write_timeout_ms: u64,
    /// How much memory finished responses may take that wait for one client, in MiB.
    pub responses_per_client_mib: u64,
    /// How much memory they may take in all.
    pub responses_mib: u64,
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            // Some 40 KB each when they are in use.
            max: 4_096,
            // An office behind one address, and no more than a quarter of all.
            per_address_max: 1_024,
            // Far more than two cores have use for: what waits here waits for the disk or for the sandbox.
            requests_max: 1_024,
            http2_streams_max: 64,
            header_timeout_ms: 10_000,
            // Shorter than the time for the whole request, so that a slow sender is told so.
            body_timeout_ms: 20_000,
            body_stall_timeout_ms: 10_000,
            // Longer than most clients and proxies keep a connection, so that they close it and not we under their request.
            idle_timeout_ms: 75_000,
            write_timeout_ms: 30_000,
            // Nine of the largest photos, and no more than a quarter of all.
            responses_per_client_mib: 64,
            responses_mib: 256,
        }
    }
}

impl ConnectionsConfig {
    /// As [`Self::header_timeout_ms`].
    #[must_use]
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    /// As [`Self::idle_timeout_ms`].
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }

    /// As [`Self::write_timeout_ms`].
    #[must_use]
    pub fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    /// As [`Self::body_timeout_ms`].
    #[must_use]
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// As [`Self::body_stall_timeout_ms`].
    #[must_use]
    pub fn body_stall_timeout(&self) -> Duration {
        Duration::from_millis(self.body_stall_timeout_ms)
    }

    fn bounds(&self) -> [Bound; 11] {
        [
            ("max", self.max, 1..=100_000),
            ("per_address_max", self.per_address_max, 1..=100_000),
            ("requests_max", self.requests_max, 1..=100_000),
            ("http2_streams_max", self.http2_streams_max, 1..=1_000),
            ("header_timeout_ms", self.header_timeout_ms, 100..=120_000),
            ("body_timeout_ms", self.body_timeout_ms, 100..=600_000),
            ("body_stall_timeout_ms", self.body_stall_timeout_ms, 100..=600_000),
            ("idle_timeout_ms", self.idle_timeout_ms, 100..=3_600_000),
            ("write_timeout_ms", self.write_timeout_ms, 100..=600_000),
            ("responses_per_client_mib", self.responses_per_client_mib, 1..=65_536),
            ("responses_mib", self.responses_mib, 1..=65_536),
        ]
    }
}

/// What is wrong with the settings of proxies, origins, times and numbers.
pub(super) fn collect_problems(server: &ServerConfig, problems: &mut Vec<String>) {
    for (key, value, range) in server.connections.bounds() {
        if !range.contains(&value) {
            problems.push(format!("`server.connections.{key}` lies between {} and {}", range.start(), range.end()));
        }
    }
    if !(100..=600_000).contains(&server.shutdown_timeout_ms) {
        problems.push("`server.shutdown_timeout_ms` lies between 100 and 600000".to_owned());
    }
    if server.hsts_max_age_s > super::sections::HSTS_MAX_AGE_S_MAX {
        let most = super::sections::HSTS_MAX_AGE_S_MAX;
        problems.push(format!("`server.hsts_max_age_s` lies between 0 and {most} seconds, two years"));
    }
    for network in server.trusted_proxies.iter().filter(|network| network.is_wider_than_any_private_one()) {
        problems.push(format!(
            "`server.trusted_proxies` has `{network}`, which is most of the internet: whoever is in it says for itself which address it has, and no limit holds it; name the addresses of the proxies alone"
        ));
    }
    for (key, count) in [("trusted_proxies", server.trusted_proxies.len()), ("cors_origins", server.cors_origins.len())]
    {
        if count > LIST_MAX {
            problems.push(format!("`server.{key}` has {count} entries; at most {LIST_MAX} are taken"));
        }
    }
    if let Some(tls) = &server.tls {
        let bounds: [Bound; 3] = [
            ("handshake_timeout_ms", tls.handshake_timeout_ms, 100..=120_000),
            ("check_every_s", tls.check_every_s, 1..=86_400),
            ("expiry_warning_days", tls.expiry_warning_days, 1..=365),
        ];
        for (key, value, range) in bounds {
            if !range.contains(&value) {
                problems.push(format!("`server.tls.{key}` lies between {} and {}", range.start(), range.end()));
            }
        }
    }
}

/// The most entries of a list; each is looked at for every request.
const LIST_MAX: usize = 64;
