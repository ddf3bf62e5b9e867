//! By which names the admin port may be called.
//!
//! A web page can let its own name resolve to an address of this machine (DNS rebinding), and then
//! read answers of the admin port. The browser still sends the page's name in `Host`. So only the
//! names below are served, and any other name gets 421:
//! - an IP address: no name was resolved
//! - `localhost` and names below it, which browsers resolve themselves
//! - the names that the broker is bound to or advertised by

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::refusal::Refusal;

const WHAT: &str = "The admin port is not served under this host name.";
const HINT: &str = "Use an IP address, localhost, or a name that kafkalite.admin.host, \
    listeners or advertised.listeners has.";

/// Names of the broker, as its configuration spells them.
#[derive(Clone)]
pub(super) struct Names(Arc<[String]>);

impl Names {
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Whether `host`, the value of a `Host` header, may be meant.
    pub(super) fn include(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
        let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = match bracketed {
            Some(name) => name.parse::<Ipv6Addr>().is_ok(),
            None => name.parse::<IpAddr>().is_ok(),
        };
        let is_local = name == "localhost" || name.ends_with(".localhost");
        is_address || is_local || self.0.iter().any(|known| known.eq_ignore_ascii_case(&name))
    }
}

/// Answers a request, or says that its host is not served here.
pub(super) async fn check(State(names): State<Names>, request: Request, next: Next) -> Response {
    let named = request.headers().get_all(header::HOST).iter();
    let in_header = named.map(|host| host.to_str().unwrap_or_default());
    // HTTP/1.0 need not say one; what browsers send does.
    let all_known = in_header.chain(request.uri().authority().map(Authority::as_str));
    if all_known.into_iter().all(|host| names.include(host)) {
        return next.run(request).await;
    }
    const STATUS: StatusCode = StatusCode::MISDIRECTED_REQUEST;
    if request.uri().path().starts_with(super::API) {
        let why = "a web page can give this machine any name, and then read the answers";
        return Refusal::new(STATUS, WHAT, why, HINT).into_response();
    }
    (STATUS, format!("{WHAT} {HINT}\n")).into_response()
}
