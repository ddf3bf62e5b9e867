//! What a request asks: the parts of its path and the parameters of its query.
//!
//! A parameter that the path does not know, or that is there twice, is refused: what a client
//! misspelled would otherwise have no effect.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::RawPathParams;
use axum::http::StatusCode;

use serde::{Deserialize, Serialize};

use crate::admin_http::Refusal;

/// Rows of a page, at most.
pub(super) const MOST: usize = 1_000;
/// Rows of a page of a client that does not say.
const USUAL: usize = 100;

/// The parameter that says whose figures are wanted.
pub(super) const BROKER: &str = "broker";

/// A parameter of brokers' questions: name the partitions whose lag is not known. See `lag`.
pub(super) const ELSEWHERE: &str = "elsewhere";

/// Whose figures are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those of the broker that is asked.
    Own,
    One(i32),
    /// Those of all brokers together.
    All,
}

/// One request, decoded. Brokers send it to each other as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Asked {
    path: Vec<(String, String)>,
    query: Vec<(String, String)>,
}

fn bad(what: impl Display, why: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, what.to_string(), why, hint)
}

impl Asked {
    /// Decodes a request for `route`, whose query may have the parameters `known`. No `path` is one
    /// that cannot be read.
    pub(super) fn new(
        route: &str,
        known: &[&str],
        path: Option<RawPathParams>,
        query: Option<&str>,
    ) -> Result<Self, Refusal> {
        let path = path.ok_or_else(|| {
            let why = "a part is not UTF-8 in percent-encoding";
            bad("the path cannot be read", why, "encode it as URLs are.")
        })?;
        let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Self { path: path.collect(), query: decode_query(route, known, query)? })
    }

    /// A request with these parameters alone.
    pub(super) fn with(query: Vec<(String, String)>) -> Self {
        Self { path: Vec::new(), query }
    }

    /// Decodes what another broker asks, whose version may be another.
    pub(super) fn of_broker(known: &[&str], asked: &[u8]) -> Result<Self, Refusal> {
        let unreadable = |why: String| {
            bad("the question of a broker cannot be read", why, "let all brokers have one version.")
        };
        let asked: Self =
            serde_json::from_slice(asked).map_err(|error| unreadable(error.to_string()))?;
        let is_known = |name: &str| name == ELSEWHERE || known.contains(&name);
        match asked.query.iter().find(|(name, _)| !is_known(name)) {
            Some((name, _)) => Err(unreadable(format!("there is no parameter {name:?}"))),
            None => Ok(asked),
        }
    }

    /// The same request, for a broker that is to answer for itself.
    pub(super) fn for_one(&self) -> Self {
        let query = self.query.iter().filter(|(name, _)| name != BROKER);
        Self { path: self.path.clone(), query: query.cloned().collect() }
    }

    /// The same request, for one of several brokers whose answers become one.
    pub(super) fn for_sum(&self) -> Self {
        let mut one = self.for_one();
        one.query.push((ELSEWHERE.to_owned(), String::new()));
        one
    }

    /// Whose figures are wanted.
    pub(super) fn whose(&self) -> Result<Whose, Refusal> {
        match self.text(BROKER) {
            None => Ok(Whose::Own),
            Some("all") => Ok(Whose::All),
            Some(text) => text.parse().map(Whose::One).map_err(|_| {
                let why = format!("it is {text:?}, neither \"all\" nor the id of a broker");
                let hint = "GET /api/v1/cluster lists the brokers.";
                bad(format!("the parameter {BROKER} cannot be read"), why, hint)
            }),
        }
    }

    /// The part of the path of this name.
    pub(super) fn part(&self, name: &str) -> &str {
        let found = self.path.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// A parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A parameter that is a number of `range`.
    pub(super) fn number<T>(
        &self,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, Refusal>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let why = || format!("it is {text:?}, no number from {} to {}", range.start(), range.end());
        let what = || format!("the parameter {name} cannot be read");
        number.map(Some).ok_or_else(|| bad(what(), why(), "give a number of that range."))
    }

    /// How many rows the answer may have.
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        Ok(self.number("limit", 1..=MOST)?.unwrap_or(USUAL))
    }

    /// What the rows must contain.
    pub(super) fn search(&self) -> Search {
        Search(self.text("search").unwrap_or_default().to_lowercase())
    }
}

/// A text that rows are searched for, in any case.
#[derive(Debug)]
pub(super) struct Search(String);

impl Search {
    /// Whether everything is wanted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `text` is wanted.
    pub(super) fn wants(&self, text: &str) -> bool {
        self.0.is_empty() || text.to_lowercase().contains(&self.0)
    }
}

fn decode_query(
    route: &str,
    known: &[&str],
    query: Option<&str>,
) -> Result<Vec<(String, String)>, Refusal> {
    let mut decoded: Vec<(String, String)> = Vec::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let both = decode(name).zip(decode(value));
        let (name, value) = both.ok_or_else(|| {
            let why = "a parameter is not UTF-8 in percent-encoding";
            bad("the query cannot be read", why, "encode it as URLs are.")
        })?;
        if !known.contains(&name.as_str()) {
            let hint = match known {
                [] => format!("{route} takes no parameters."),
                known => format!("{route} takes: {}.", known.join(", ")),
            };
            let what = format!("there is no parameter {name:?}");
            return Err(bad(what, "the path does not know it", hint));
        }
        if decoded.iter().any(|(other, _)| *other == name) {
            let what = format!("the parameter {name} is there twice");
            return Err(bad(what, "only one of them could count", "give it once."));
        }
        decoded.push((name, value));
    }
    Ok(decoded)
}

/// A name or a value of a query; `None` if it is no text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                let both = digits.iter().all(u8::is_ascii_hexdigit);
                let digits = std::str::from_utf8(digits).ok().filter(|_| both)?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = after;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<Asked, Refusal> {
        let query = decode_query("/here", &["limit", "search"], Some(query))?;
        Ok(Asked { query, ..Asked::default() })
    }

    #[test]
    fn queries_are_decoded_as_browsers_encode_them() {
        let read = |query| {
            let read = asked(query).ok()?;
            Some(read.text("search")?.to_owned())
        };
        assert_eq!(read("search=a%20b+c&limit=3").as_deref(), Some("a b c"));
        assert_eq!(read("search=%C3%A4%26%3D").as_deref(), Some("ä&="));
        assert_eq!(read("search").as_deref(), Some(""));
        assert_eq!(read("&&search=x&").as_deref(), Some("x"));
        for refused in ["search=%", "search=%4", "search=%zz", "search=%+1", "search=%ff"] {
            let refusal = asked(refused).expect_err(refused);
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn what_is_unknown_or_there_twice_is_refused() {
        let unknown = asked("serach=x").expect_err("unknown");
        assert_eq!(unknown.hint, "/here takes: limit, search.");
        let twice = asked("limit=1&limit=2").expect_err("twice");
        assert_eq!(twice.what, "the parameter limit is there twice");
    }

    #[test]
    fn a_page_has_a_hundred_rows_and_a_thousand_at_most() {
        let limit = |query| asked(query).and_then(|asked| asked.limit()).ok();
        assert_eq!(limit(""), Some(100));
        assert_eq!(limit("limit=1"), Some(1));
        assert_eq!(limit("limit=1000"), Some(1_000));
        for refused in ["limit=0", "limit=1001", "limit=-1", "limit=", "limit=1e3", "limit=x"] {
            assert_eq!(limit(refused), None, "{refused}");
        }
    }
}
