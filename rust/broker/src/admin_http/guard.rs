//! Who may use the API.
//!
//! Records, group members and settings are not for all who reach the port:
//! - without `kafkalite.admin.token` only clients on this machine are answered
//! - with it every client has to send `Authorization: Bearer TOKEN`, those on this machine too,
//!   because a proxy may bring them in
//! - figures and recent requests are for this machine without a token, and for others with it
//! - a browser sends `Origin` and `Sec-Fetch-Site`, and another site's page is refused
//!
//! The name in `Host` is checked before, see `host.rs`. Every answer forbids its reader to run
//! scripts, to be framed, to guess another type, and to keep it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;

use super::listener::{Answering, BoundedListener};
use super::refusal::Refusal;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const CONTENT_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'none'";

/// What every answer says to its reader.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (RESOURCE_POLICY, "same-origin"),
];

/// The client's end of a connection, and what notes that a request of it is being answered.
#[derive(Debug, Clone)]
pub(super) struct Peer(SocketAddr, Answering);

impl Connected<IncomingStream<'_, BoundedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        Self(*stream.remote_addr(), stream.io().answering())
    }
}

/// The rule of one port.
#[derive(Clone, Default)]
pub(super) struct Guard {
    token: Option<Arc<str>>,
}

impl Guard {
    pub(super) fn new(token: Option<String>) -> Self {
        Self { token: token.map(Arc::from) }
    }

    /// Why a client is not answered.
    fn refusal(&self, peer: IpAddr, headers: &HeaderMap) -> Option<Refusal> {
        if is_of_another_site(headers) {
            return Some(Refusal::new(
                StatusCode::FORBIDDEN,
                "the request is refused",
                "it comes from a web page of another origin",
                "open the API's own address, or ask it from a program that is no browser.",
            ));
        }
        self.refusal_of(peer, |token| has_token(headers, token))
    }

    fn refusal_of(&self, peer: IpAddr, knows: impl Fn(&str) -> bool) -> Option<Refusal> {
        match &self.token {
            Some(token) if !knows(token) => Some(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "the request is refused",
                "it does not carry the token of this broker",
                "send the header Authorization: Bearer TOKEN, with kafkalite.admin.token.",
            )),
            None if !peer.to_canonical().is_loopback() => Some(Refusal::new(
                StatusCode::FORBIDDEN,
                "the request is refused",
                "it comes from another machine, and this broker has no token",
                "set kafkalite.admin.token, and send it as Authorization: Bearer TOKEN.",
            )),
            _ => None,
        }
    }
}

impl Guard {
    /// Why a client gets no figures: one on another machine needs the token.
    fn refusal_of_figures(&self, peer: IpAddr, headers: &HeaderMap) -> Option<Refusal> {
        if peer.to_canonical().is_loopback() {
            return None;
        }
        self.refusal(peer, headers)
    }
}

/// Whether a broker at `peer`, which sends `given`, may have what the API tells. The rule is that
/// of the API's own clients: without a token this machine only, with it those who know it.
///
/// # Errors
/// Why not.
pub fn may_ask(token: Option<String>, peer: IpAddr, given: Option<&str>) -> Result<(), Refusal> {
    let knows =
        |token: &str| given.is_some_and(|given| are_same(given.as_bytes(), token.as_bytes()));
    Guard::new(token).refusal_of(peer, knows).map_or(Ok(()), Err)
}

/// Answers a request for figures, or says who may ask.
pub(super) async fn check_figures(
    State(guard): State<Guard>,
    ConnectInfo(Peer(peer, answering)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    answering.begin();
    match guard.refusal_of_figures(peer.ip(), request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// Whether a browser says that a page of another origin sends the request.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    let hosts: Vec<String> = headers.get_all(header::HOST).iter().map(text).collect();
    let is_own = |origin: &HeaderValue| {
        let origin = text(origin).parse::<Uri>().ok();
        let authority = origin.as_ref().and_then(Uri::authority).map(Authority::as_str);
        authority.is_some_and(|own| hosts.iter().any(|host| host.eq_ignore_ascii_case(own)))
    };
    let is_same = |site: &HeaderValue| site == "same-origin" || site == "none";
    !headers.get_all(header::ORIGIN).iter().all(is_own)
        || !headers.get_all(SEC_FETCH_SITE).iter().all(is_same)
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|text| text.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    given.is_some_and(|(_, given)| are_same(given.trim().as_bytes(), token.as_bytes()))
}

/// Compares in a time that says nothing of where the two differ.
fn are_same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

/// Answers a request of the API, or says who may ask.
pub(super) async fn check(
    State(guard): State<Guard>,
    ConnectInfo(Peer(peer, answering)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    answering.begin();
    let mut response = match guard.refusal(peer.ip(), request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    fn status(token: Option<&str>, peer: &str, pairs: &[(&'static str, &'static str)]) -> u16 {
        let guard = Guard::new(token.map(str::to_owned));
        let peer = peer.parse().expect("an address");
        guard.refusal(peer, &headers(pairs)).map_or(200, |refusal| refusal.status.as_u16())
    }

    #[test]
    fn without_a_token_only_this_machine_is_answered() {
        for (peer, expected) in [
            ("127.0.0.1", 200),
            ("127.9.9.9", 200),
            ("::1", 200),
            ("::ffff:127.0.0.1", 200),
            ("192.0.2.7", 403),
            ("::ffff:192.0.2.7", 403),
            ("2001:db8::1", 403),
        ] {
            assert_eq!(status(None, peer, &[]), expected, "{peer}");
        }
        assert_eq!(status(None, "192.0.2.7", &[("authorization", "Bearer ")]), 403);
    }

    #[test]
    fn with_a_token_each_client_has_to_send_it() {
        for peer in ["127.0.0.1", "192.0.2.7"] {
            for (sent, expected) in [
                ("Bearer a-long-secret", 200),
                ("bearer a-long-secret", 200),
                ("Bearer a-long-secreT", 401),
                ("Bearer a-long-secret-and-more", 401),
                ("Bearer a-long", 401),
                ("Bearer", 401),
                ("Bearer ", 401),
                ("Basic a-long-secret", 401),
                ("a-long-secret", 401),
            ] {
                let sent = [("authorization", sent)];
                assert_eq!(status(Some("a-long-secret"), peer, &sent), expected, "{sent:?}");
            }
            assert_eq!(status(Some("a-long-secret"), peer, &[]), 401);
        }
    }

    #[test]
    fn figures_are_for_other_machines_with_the_token_alone() {
        let own_token = [("authorization", "Bearer a-long-secret")];
        for (token, peer, sent, expected) in [
            (None, "127.0.0.1", &[][..], 200),
            (None, "192.0.2.7", &[][..], 403),
            (None, "192.0.2.7", &own_token[..], 403),
            (Some("a-long-secret"), "127.0.0.1", &[][..], 200),
            (Some("a-long-secret"), "::ffff:127.0.0.1", &[][..], 200),
            (Some("a-long-secret"), "192.0.2.7", &[][..], 401),
            (Some("a-long-secret"), "192.0.2.7", &own_token[..], 200),
            (Some("another"), "2001:db8::1", &own_token[..], 401),
        ] {
            let guard = Guard::new(token.map(str::to_owned));
            let peer = peer.parse().expect("an address");
            let refused = guard.refusal_of_figures(peer, &headers(sent));
            let status = refused.map_or(200, |refusal| refusal.status.as_u16());
            assert_eq!(status, expected, "{token:?} {peer} {sent:?}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let own = ("host", "localhost:9644");
        for (pair, expected) in [
            (("origin", "http://localhost:9644"), 200),
            (("origin", "http://LOCALHOST:9644"), 200),
            (("origin", "http://localhost:3000"), 403),
            (("origin", "http://evil.example"), 403),
            (("origin", "null"), 403),
            (("origin", ""), 403),
            (("sec-fetch-site", "same-origin"), 200),
            (("sec-fetch-site", "none"), 200),
            (("sec-fetch-site", "same-site"), 403),
            (("sec-fetch-site", "cross-site"), 403),
        ] {
            assert_eq!(status(None, "127.0.0.1", &[own, pair]), expected, "{pair:?}");
        }
    }
}
