//! Finding a broker that answers: those that are known, and `bootstrap.servers`, side by side.

use super::Cluster;
use crate::address::HostPort;
use crate::connection::Connection;
use crate::error::ConnectionError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The next address is tried when the one before it has failed, or has taken this long.
const HEAD_START: Duration = Duration::from_millis(250);

/// What the search remembers.
pub struct Reach {
    /// A connection to a broker whose id is not known yet.
    anonymous: Mutex<Option<Arc<Connection>>>,
    /// The holder of the lock searches; when the last search failed, and how.
    search: tokio::sync::Mutex<Option<(Instant, ConnectionError)>>,
}

/// What happened at one address.
struct Cause {
    place: HostPort,
    why: String,
    tries: u32,
}

impl Reach {
    pub fn new() -> Self {
        Self { anonymous: Mutex::new(None), search: tokio::sync::Mutex::new(None) }
    }

    fn living(&self) -> Option<Arc<Connection>> {
        self.anonymous.lock().as_ref().filter(|open| !open.is_closed()).cloned()
    }

    /// Closes the connection that belongs to no particular broker.
    pub fn forget(&self) {
        if let Some(open) = self.anonymous.lock().take() {
            open.close("this client closed the connection");
        }
    }
}

impl Cluster {
    /// A living connection, or the first that can be made.
    pub(super) async fn reach_any(&self) -> Result<Arc<Connection>, ConnectionError> {
        if let Some(open) = self.beside_suspects().await {
            return Ok(open);
        }
        let image = self.image();
        let living = || {
            let pool = &self.0.pool;
            // One that is not in the cluster any more may be open, and silent.
            let listed = pool.least_loaded(|node| !image.is_without(node));
            let any = || pool.least_loaded(|_| true).or_else(|| self.0.reach.living());
            listed.or_else(any)
        };
        if let Some(open) = living() {
            return Ok(open);
        }
        let came = Instant::now();
        let mut failed = self.0.reach.search.lock().await;
        if let Some(open) = living() {
            return Ok(open);
        }
        if let Some((at, error)) = &*failed
            && *at >= came
        {
            return Err(error.clone());
        }
        let found = self.search().await;
        *failed = found.as_ref().err().map(|error| (Instant::now(), error.clone()));
        let connection = Arc::new(found?);
        *self.0.reach.anonymous.lock() = Some(Arc::clone(&connection));
        drop(failed);
        // Where the address is that of a known broker, it has its connection now.
        self.adopt_bootstrap_connection();
        Ok(connection)
    }

    /// Tries all addresses, again and again with a growing wait between, until one answers or
    /// `kafkalite.bootstrap.timeout.ms` is over.
    async fn search(&self) -> Result<Connection, ConnectionError> {
        let config = &self.0.config;
        let began = Instant::now();
        let deadline = began + config.bootstrap_timeout;
        let mut causes: Vec<Cause> = Vec::new();
        let mut rounds = 0;
        loop {
            if let Some(connection) = self.try_all(deadline, &mut causes).await {
                return Ok(connection);
            }
            rounds += 1;
            let wait = config.reconnect_backoff.after(rounds);
            // A round that could not end before the deadline would tell nothing new.
            if Instant::now() + wait >= deadline {
                tokio::time::sleep_until(deadline.into()).await;
                break;
            }
            tokio::time::sleep(wait).await;
        }
        let seconds = config.bootstrap_timeout.as_secs_f64();
        let text = |cause: &Cause| {
            let tries = if cause.tries == 1 { "try" } else { "tries" };
            format!("{} ({} {tries} in {seconds:.1} s)", cause.why, cause.tries)
        };
        let causes = causes.iter().map(|cause| (cause.place.to_string(), text(cause))).collect();
        let after_ms = began.elapsed().as_millis() as u64;
        Err(ConnectionError::NoBrokerReachable { causes, after_ms })
    }

    /// One round: each address gets a head start on the next; the first that answers wins.
    async fn try_all(&self, deadline: Instant, causes: &mut Vec<Cause>) -> Option<Connection> {
        let mut places = self.candidates().into_iter();
        let mut attempts = JoinSet::new();
        let mut left = true;
        while left || !attempts.is_empty() {
            match places.next() {
                Some(place) => self.attempt(&mut attempts, place, deadline),
                None => left = false,
            }
            let head_start = Instant::now() + HEAD_START;
            loop {
                let ended = tokio::select! {
                    ended = attempts.join_next() => ended,
                    () = tokio::time::sleep_until(head_start.into()), if left => break,
                };
                match ended {
                    Some(Ok((_, Ok(connection)))) => return Some(connection),
                    Some(Ok((place, Err(error)))) => {
                        note(causes, place, &error, self.0.config.setup_timeout.initial);
                    }
                    // It panicked or was aborted.
                    Some(Err(_)) => {}
                    None => break,
                }
                if left {
                    break;
                }
            }
        }
        None
    }

    fn attempt(
        &self,
        attempts: &mut JoinSet<(HostPort, Result<Connection, ConnectionError>)>,
        place: HostPort,
        deadline: Instant,
    ) {
        let config = Arc::clone(&self.0.config);
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = left.min(config.setup_timeout.initial);
        attempts.spawn(async move {
            let opened = Connection::open(&place, &config, limit).await;
            (place, opened)
        });
    }

    /// Known brokers first, each kind in an order of chance, so that clients spread.
    fn candidates(&self) -> Vec<HostPort> {
        let image = self.image();
        let mut places: Vec<HostPort> =
            image.brokers().map(|broker| broker.place.clone()).collect();
        rotate(&mut places);
        if places.is_empty() || self.0.config.rebootstrap {
            let mut others = self.bootstrap().to_vec();
            rotate(&mut others);
            for place in others {
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        places
    }

    /// Gives the connection that was made to an address to the broker that turned out to be there.
    pub(super) fn adopt_bootstrap_connection(&self) {
        let image = self.image();
        if image.brokers().next().is_none() {
            return;
        }
        let Some(open) = self.0.reach.anonymous.lock().take() else { return };
        let found = image.brokers().find(|broker| open.leads_to(&broker.place));
        if let Some(broker) = found {
            self.0.pool.adopt(broker.id, open);
        } else if self.0.pool.least_loaded(|_| true).is_none() {
            // An address of its own, a load balancer's perhaps: it serves until there is another.
            *self.0.reach.anonymous.lock() = Some(open);
        }
    }
}

/// Begins at another element each time.
fn rotate(places: &mut [HostPort]) {
    if !places.is_empty() {
        let by = getrandom::u32().unwrap_or(0) as usize % places.len();
        places.rotate_left(by);
    }
}

/// Keeps the last reason of each address. A try may be cut short by the search's end before the
/// `whole` time that it may take. Its error says nothing new, so the earlier reason stays.
fn note(causes: &mut Vec<Cause>, place: HostPort, error: &ConnectionError, whole: Duration) {
    let cut_short = matches!(error, ConnectionError::Timeout { after_ms, .. }
        if u128::from(*after_ms) < whole.as_millis());
    let why = match error {
        ConnectionError::Disconnected { why, .. }
        | ConnectionError::MalformedResponse { why, .. } => why.clone(),
        ConnectionError::Timeout { after_ms, .. } => {
            format!("no answer to ApiVersions within {:.1} s", *after_ms as f64 / 1_000.0)
        }
        other => other.to_string(),
    };
    match causes.iter_mut().find(|cause| cause.place == place) {
        Some(cause) => {
            cause.tries += 1;
            if !cut_short {
                cause.why = why;
            }
        }
        None => causes.push(Cause { place, why, tries: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(errors: &[ConnectionError]) -> Vec<(String, u32)> {
        let place = HostPort { host: "127.0.0.1".to_owned(), port: 1 };
        let mut causes = Vec::new();
        for error in errors {
            note(&mut causes, place.clone(), error, Duration::from_secs(10));
        }
        causes.into_iter().map(|cause| (cause.why, cause.tries)).collect()
    }

    #[test]
    fn a_try_that_the_searchs_end_cuts_short_leaves_the_reason_before_it() {
        let place = "127.0.0.1:1".to_owned();
        let refused = || ConnectionError::Disconnected {
            address: place.clone(),
            why: "connection refused".to_owned(),
        };
        let silent =
            |after_ms| ConnectionError::Timeout { what: "ApiVersions".to_owned(), after_ms };
        let reason = |errors: &[ConnectionError]| {
            let (why, tries) = told(errors).pop().expect("an error was noted");
            assert_eq!(tries as usize, errors.len());
            why
        };
        assert_eq!(reason(&[refused(), silent(0)]), "connection refused");
        assert_eq!(reason(&[silent(300), silent(0)]), "no answer to ApiVersions within 0.3 s");
        assert_eq!(reason(&[silent(10), refused()]), "connection refused");
        let whole = reason(&[refused(), silent(10_000)]);
        assert_eq!(whole, "no answer to ApiVersions within 10.0 s");
    }
}
