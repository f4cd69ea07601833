//! What lies between a client and the API: proxies, TLS, time, numbers, browsers.

mod cors;
mod crowds;
mod headers;
mod http2;
mod ipv6;
mod proxies;
mod slow;
pub(crate) mod stopping;
mod streams;
mod tls;
