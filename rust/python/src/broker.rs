//! A broker inside the Python process: the same broker that `serve` runs, without its process.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, SendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kafkalite_broker::process::{self, ControlRefused, Embedded, Links, TestControl};
use kafkalite_client::fork::ForkGuard;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::client::waiting::wait;
use crate::error::{client_error, start_error};

/// A broker that runs on threads of this process.
///
/// `config` holds keys with dots, over the profile `dev`; `topics` are made when it starts: names,
/// and partitions or `None`. Nothing is read from files or the environment.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct Broker {
    inside: ForkGuard<Inside>,
    /// What the child of a fork may still ask for. Locked with the GIL held and for no longer, so
    /// no other thread holds it when Python forks.
    told: Mutex<Addresses>,
}

/// What a broker has in the process it was made in. In the child of a fork the locks may be
/// those of a thread that the child does not have.
struct Inside {
    config: Mutex<BTreeMap<String, String>>,
    topics: Vec<(String, Option<i32>)>,
    links: Links,
    running: Mutex<Option<Embedded>>,
}

/// Where it serves, while it runs.
#[derive(Clone, Default)]
struct Addresses {
    bootstrap_servers: Option<String>,
    admin_url: Option<String>,
}

impl Addresses {
    fn of(running: Option<&Embedded>) -> Self {
        Self {
            bootstrap_servers: running.map(Embedded::bootstrap_servers),
            admin_url: running.and_then(Embedded::admin_url),
        }
    }
}

impl Broker {
    fn get(&self, py: Python<'_>) -> PyResult<&Inside> {
        self.inside.get().map_err(|error| client_error(py, &error))
    }

    fn tell(&self, addresses: Addresses) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Where it serves; where it served at the fork, in the child of one.
    fn addresses(&self, py: Python<'_>) -> Addresses {
        match self.inside.get() {
            Ok(inside) => py.detach(|| Addresses::of(inside.running().as_ref())),
            Err(_) => self.told.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Ends it, if it runs; in the child of a fork it is left alone.
    fn end(&self, py: Python<'_>, how: impl FnOnce(Embedded) + Send) {
        let Ok(inside) = self.inside.get() else { return };
        self.tell(Addresses::default());
        py.detach(|| {
            let running = inside.running().take();
            if let Some(running) = running {
                how(running);
            }
        });
    }
}

impl Inside {
    fn running(&self) -> MutexGuard<'_, Option<Embedded>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Obeys a command on a thread of its own, so that the one of Python hears Ctrl-C meanwhile.
fn obeyed(
    py: Python<'_>,
    control: Arc<TestControl>,
    method: String,
    path: String,
    body: Vec<u8>,
) -> PyResult<Result<Vec<u8>, ControlRefused>> {
    // Without a place in it: an answer is taken, or its sender learns that the wait has ended.
    let (sender, answers) = sync_channel(0);
    let obey = move || {
        let answer = control.command(&method, &path, &body);
        if let Err(SendError(Ok(made))) = sender.send(answer) {
            control.take_back(&method, &path, &made);
        }
    };
    std::thread::Builder::new().name("test-control".to_owned()).spawn(obey)?;
    let step = move |until: Instant| {
        let left = until.saturating_duration_since(Instant::now());
        match answers.recv_timeout(left) {
            Ok(answer) => Some(Some(answer)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(None),
        }
    };
    let answer = wait(py, None, step)?.flatten();
    answer.ok_or_else(|| PyRuntimeError::new_err("the command of test control panicked"))
}

#[pymethods]
impl Broker {
    #[new]
    #[pyo3(signature = (config, topics))]
    fn new(config: BTreeMap<String, String>, topics: Vec<(String, Option<i32>)>) -> Self {
        let (config, running) = (Mutex::new(config), Mutex::new(None));
        let inside = Inside { config, topics, links: Links::default(), running };
        Self { inside: ForkGuard::new(inside), told: Mutex::default() }
    }

    /// Starts it; it serves when this returns. Starting a running broker does nothing.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let inside = self.get(py)?;
        let started = py.detach(|| {
            let mut running = inside.running();
            if running.is_none() {
                let config = inside.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
                *running = Some(Embedded::start(&config, &inside.topics, &inside.links)?);
            }
            Ok(Addresses::of(running.as_ref()))
        });
        self.tell(started.map_err(|failure| start_error(py, &failure))?);
        Ok(())
    }

    /// From its next start on it joins the cluster of the broker at `address`, if its directory is
    /// empty then.
    fn join(&self, py: Python<'_>, address: String) -> PyResult<()> {
        let config = &self.get(py)?.config;
        let mut config = config.lock().unwrap_or_else(PoisonError::into_inner);
        config.insert("kafkalite.join".to_owned(), address);
        Ok(())
    }

    /// Stops it; its records stay in its directory. Stopping a stopped broker does nothing.
    fn stop(&self, py: Python<'_>) {
        self.end(py, Embedded::stop);
    }

    /// Ends it like a crash, as far as threads can: nothing is flushed, no client is notified.
    fn kill(&self, py: Python<'_>) {
        self.end(py, Embedded::kill);
    }

    /// Cuts the links to the brokers at these addresses, and mends all others. That counts for its
    /// next start as well.
    fn cut_links(&self, py: Python<'_>, addresses: Vec<String>) -> PyResult<()> {
        let links = &self.get(py)?.links;
        let cut = || links.cut(addresses.iter().map(String::as_str));
        py.detach(cut).map_err(|failure| start_error(py, &failure))
    }

    /// Obeys a command of test control: a status of HTTP, and a body of JSON as the admin API has.
    /// Ctrl-C ends the wait for it. The command goes on, as it does over HTTP.
    fn control(
        &self,
        py: Python<'_>,
        method: String,
        path: String,
        body: Vec<u8>,
    ) -> PyResult<(u16, String)> {
        let inside = self.get(py)?;
        // The lock ends with this line: the command may wait for a fault that another one ends.
        let control = py.detach(|| inside.running().as_ref().map(Embedded::test_control));
        let answer = match control.unwrap_or_else(|| Err(ControlRefused::not_running())) {
            Ok(control) => obeyed(py, control, method, path, body)?,
            Err(refused) => Err(refused),
        };
        Ok(match answer {
            Ok(body) => (200, String::from_utf8_lossy(&body).into_owned()),
            Err(refused) => (refused.status, refused.json()),
        })
    }

    /// The last requests, oldest first; none while it does not run, or in the child of a fork.
    fn recent_requests(&self, py: Python<'_>) -> Vec<RecentRequest> {
        let Ok(inside) = self.inside.get() else { return Vec::new() };
        let (recent, now_ns) = py
            .detach(|| inside.running().as_ref().map(Embedded::recent_requests))
            .unwrap_or_default();
        recent.iter().map(|request| RecentRequest::new(request, now_ns)).collect()
    }

    /// `HOST:PORT` of every listener, comma-separated; `None` while it does not run.
    #[getter]
    fn bootstrap_servers(&self, py: Python<'_>) -> Option<String> {
        self.addresses(py).bootstrap_servers
    }

    /// URL of metrics and health; `None` if they are off or it does not run.
    #[getter]
    fn admin_url(&self, py: Python<'_>) -> Option<String> {
        self.addresses(py).admin_url
    }
}

/// A request that the broker saw lately; times in ms, `None` where it has not come yet.
#[pyclass(frozen, get_all, module = "kafkalite._native")]
pub struct RecentRequest {
    api: String,
    version: i16,
    client_id: Option<String>,
    peer: String,
    /// How long ago it came.
    age_ms: f64,
    /// In the request queue.
    queue_ms: f64,
    /// In its handler.
    handler_ms: Option<f64>,
    /// Waiting for its condition, a fetch for bytes for instance.
    waited_ms: Option<f64>,
    /// Until its answer's last byte was in the socket.
    sending_ms: Option<f64>,
    total_ms: Option<f64>,
}

#[pymethods]
impl RecentRequest {
    /// One as a broker's admin port tells it.
    #[new]
    #[pyo3(signature = (
        *, api, version, client_id, peer, age_ms, queue_ms, handler_ms, waited_ms, sending_ms,
        total_ms
    ))]
    #[expect(clippy::too_many_arguments, reason = "all of them are keywords")]
    fn told(
        api: String,
        version: i16,
        client_id: Option<String>,
        peer: String,
        age_ms: f64,
        queue_ms: f64,
        handler_ms: Option<f64>,
        waited_ms: Option<f64>,
        sending_ms: Option<f64>,
        total_ms: Option<f64>,
    ) -> Self {
        Self {
            api,
            version,
            client_id,
            peer,
            age_ms,
            queue_ms,
            handler_ms,
            waited_ms,
            sending_ms,
            total_ms,
        }
    }
}

impl RecentRequest {
    fn new(request: &process::RecentRequest, now_ns: u64) -> Self {
        let times = request.times(now_ns);
        Self {
            api: process::api_name(request.api_key),
            version: request.api_version,
            client_id: request.client_id.clone(),
            peer: request.peer.to_string(),
            age_ms: times.age_ms,
            queue_ms: times.queue_ms,
            handler_ms: times.handler_ms,
            waited_ms: times.waited_ms,
            sending_ms: times.sending_ms,
            total_ms: times.total_ms,
        }
    }
}

/// Lines of the log of `level` and graver ones wait for `next_log_lines` from now on.
#[pyfunction]
pub fn forward_log(py: Python<'_>, level: &str) -> PyResult<()> {
    py.detach(|| process::forward_log(level)).map_err(|failure| start_error(py, &failure))
}

/// Waits for lines: level, module, text. `None`: `stop_log` was called.
#[pyfunction]
pub fn next_log_lines(py: Python<'_>, most: usize) -> Option<Vec<(&'static str, String, String)>> {
    let lines = py.detach(|| process::next_log_lines(most))?;
    Some(lines.into_iter().map(|line| (line.level, line.target, line.message)).collect())
}

/// Nothing more is forwarded, and the thread in `next_log_lines` returns.
#[pyfunction]
pub fn stop_log(py: Python<'_>) {
    py.detach(process::stop_log);
}
