//! `serve`: configure, start, tell, wait for a signal, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::embedded::url;
use super::failure::Failure;
use super::flags::Order;
use super::links::Links;
use super::{OnReady, forks, logging, parent, say};
use crate::admin_http::{AdminHttp, AdminListener, AdminParts};
use crate::broker::{Broker, Environment};
use crate::config::{BASE, BrokerConfig, load};

/// Runs a broker until a signal stops it.
///
/// # Errors
/// The configuration is wrong, or the broker is refused something that it needs.
pub fn serve(order: &Order, ready: OnReady<'_>) -> Result<(), Failure> {
    let config = load(&order.sources)?;
    logging::start();
    warn_about(&config);
    raise_descriptor_limit();
    let mut signals = Signals::catch()?;
    // Bound before the broker starts: a taken port is found out before a log is touched.
    let admin = bind_admin_if_free(&config)?;
    let links = order.links_from_stdin.then(Links::from_stdin).transpose()?;
    let Some(broker) = signals.start(config, links, order.record_version)? else { return Ok(()) };
    let broker = Arc::new(broker);
    let admin = start_admin(admin, &broker).and_then(|admin| {
        broker.create_topics(&order.topics)?;
        Ok(admin)
    });
    let admin = admin.inspect_err(|_| broker.stop())?;
    forks::allow(&broker);
    let parent = order.stops_with_parent.map(end_of_parent).transpose();
    let parent = parent.inspect_err(|_| broker.stop())?;
    let stdin = order.stops_with_stdin.then(end_of_stdin).transpose();
    let stdin = stdin.inspect_err(|_| broker.stop())?;
    tell(&broker, admin.as_ref(), ready, order.stops_with_parent.is_some());
    signals.wait_and_stop(broker, admin, Ends { stdin, parent })
}

/// As [`bind_admin`]; a taken default port is a warning, so that a second broker on one machine
/// starts.
fn bind_admin_if_free(config: &BrokerConfig) -> Result<Option<AdminListener>, Failure> {
    let asked = config.values.settings("kafkalite.admin.port");
    let is_default = asked.iter().all(|setting| setting.origin == BASE);
    match bind_admin(config) {
        Err(failure) if is_default && failure.why.as_deref() == Some(TAKEN) => {
            let (what, hint) = (failure.what, failure.hint);
            tracing::warn!(what, hint, "another process has the port: no metrics and health");
            Ok(None)
        }
        other => other,
    }
}

/// The reason when another process has the port.
const TAKEN: &str = "another process listens there";

/// Binds the port of metrics and health, if they are on.
///
/// # Errors
/// The port is taken, or not ours to take.
pub fn bind_admin(config: &BrokerConfig) -> Result<Option<AdminListener>, Failure> {
    let Some(port) = config.admin_port else { return Ok(None) };
    let host = &config.admin_host;
    AdminListener::bind(host, port).map(Some).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => TAKEN.to_owned(),
            _ => error.to_string(),
        };
        Failure::refused(
            format!("cannot listen on {host}:{port} for metrics and health"),
            why,
            "give another port with --admin-port (0 lets the system choose, -1 is off).",
        )
    })
}

/// Serves metrics and health of `broker`.
///
/// # Errors
/// The system refuses a thread.
pub fn start_admin(
    listener: Option<AdminListener>,
    broker: &Broker,
) -> Result<Option<AdminHttp>, Failure> {
    let Some(listener) = listener else { return Ok(None) };
    let config = broker.rooms().config();
    let listeners = config.listeners.iter().chain(&config.advertised_listeners);
    let names: Vec<String> = listeners.map(|listener| listener.host.clone()).collect();
    let started = listener.start(AdminParts {
        metrics: broker.metrics().clone(),
        clock: broker.rooms().clock.clone(),
        names: names.into_iter().chain([config.admin_host.clone()]).collect(),
        token: config.admin_token.clone(),
        api: broker.admin_api(),
    });
    started.map(Some).map_err(|error| {
        Failure::refused(
            "metrics and health do not start".to_owned(),
            error.to_string(),
            "--admin-port -1 runs the broker without them.",
        )
    })
}

/// Writes the lines that scripts wait for. A parent hears which is the last of them.
fn tell(broker: &Broker, admin: Option<&AdminHttp>, ready: OnReady<'_>, has_parent: bool) {
    let addresses = broker.listeners().into_iter().map(|(_, address)| reachable(address));
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    for address in &addresses {
        say(&format!("ready: {address}\n"));
    }
    let admin = admin.map(|admin| url(reachable(admin.address())));
    if let Some(url) = &admin {
        say(&format!("admin: {url}\n"));
    }
    if has_parent {
        say("serving\n");
    }
    ready(&addresses.join(","), admin.as_deref());
}

/// `0.0.0.0` is no address to connect to; loopback reaches it from here.
pub(super) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn warn_about(config: &BrokerConfig) {
    let ignored: Vec<&str> = config.values.ignored().iter().map(|(key, _)| key.as_str()).collect();
    if !ignored.is_empty() {
        tracing::warn!(keys = ignored.join(" "), "keys of Kafka's that this broker does not have");
    }
    for variable in config.values.unknown_variables() {
        let hint = match variable.suggestion {
            Some(key) => format!("did you mean {}?", variable_of(key)),
            None => "`kafkalite config list` lists the keys.".to_owned(),
        };
        tracing::warn!(variable = variable.name, hint, "an environment variable names no key");
    }
    for listener in &config.listeners {
        let advertised = config.advertised_listeners.iter().any(|a| a.name == listener.name);
        if !listener.is_loopback() && !advertised {
            tracing::warn!(
                listener = %listener.name,
                hint = "set the address that clients use with --advertise",
                "the listener accepts remote clients, but no advertised address is set",
            );
        }
    }
}

/// The environment variable that sets `key`.
fn variable_of(key: &str) -> String {
    let key = key.strip_prefix("kafkalite.").unwrap_or(key);
    format!("KAFKALITE_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// Partitions and connections want descriptors; the system's soft limit is for shells.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Tells when the process with id `parent` has ended.
fn end_of_parent(parent: u32) -> Result<oneshot::Receiver<()>, Failure> {
    parent::watch(parent).map_err(|error| {
        Failure::refused(
            format!("cannot watch process {parent}"),
            error.to_string(),
            "look at the limits of this process: threads, memory.",
        )
    })
}

/// Tells when stdin has ended, which it does with the process that holds its other end.
fn end_of_stdin() -> Result<oneshot::Receiver<()>, Failure> {
    let (ended, end) = oneshot::channel();
    let read = move || {
        // What is written there means nothing, and a failure ends it as well.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // No receiver is left if the broker stops already.
        let _ = ended.send(());
    };
    match std::thread::Builder::new().name("stdin".to_owned()).spawn(read) {
        Ok(_) => Ok(end),
        Err(error) => Err(Failure::refused(
            "cannot watch stdin".to_owned(),
            error.to_string(),
            "look at the limits of this process: threads, memory.",
        )),
    }
}

/// How long a start may take after a signal came. What it leaves behind is what a crash leaves.
const START_AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// What else than a signal stops the broker.
struct Ends {
    stdin: Option<oneshot::Receiver<()>>,
    parent: Option<oneshot::Receiver<()>>,
}

/// SIGTERM, SIGINT and SIGHUP, caught from now on.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
    /// A terminal that was closed. `None` if the process was started with it ignored (`nohup`).
    hangup: Option<Signal>,
}

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let refused = |error: std::io::Error| {
            Failure::refused(
                "cannot catch signals".to_owned(),
                error.to_string(),
                "look at the limits of this process: descriptors, memory.",
            )
        };
        let runtime = runtime.map_err(refused)?;
        let entered = runtime.enter();
        let terminate = signal(SignalKind::terminate()).map_err(refused)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup()));
        let hangup = hangup.transpose().map_err(refused)?;
        drop(entered);
        Ok(Self { runtime, terminate, interrupt, hangup })
    }

    /// Starts the broker, on a thread of its own: it may wait for others. `None`: a signal came
    /// first, and the start did not end soon.
    fn start(
        &mut self,
        config: BrokerConfig,
        links: Option<Links>,
        record_version: Option<i16>,
    ) -> Result<Option<Broker>, Failure> {
        let (done, mut started) = oneshot::channel();
        let start = move || {
            let links = links.map(|links| links.0);
            let environment = Environment { links, ..Environment::of(&config) };
            let environment = environment.of_release(record_version);
            // An error says that a signal came meanwhile.
            let _ = done.send(Broker::start_in(config, environment));
        };
        let thread = std::thread::Builder::new().name("start".to_owned()).spawn(start);
        thread.map_err(|error| gave_up(&error.to_string()))?;
        let Self { runtime, terminate, interrupt, hangup } = self;
        let started = runtime.block_on(async {
            tokio::select! {
                started = &mut started => return Some(started),
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                Some(_) = next(hangup) => {}
            }
            let soon = tokio::time::timeout(START_AFTER_SIGNAL, started).await;
            soon.ok().inspect(|started| {
                if let Ok(Ok(broker)) = started {
                    broker.stop();
                }
            });
            None
        });
        match started {
            None => {
                tracing::info!("stopped before it served");
                Ok(None)
            }
            Some(Ok(started)) => Ok(Some(started?)),
            Some(Err(_)) => Err(gave_up("the start panicked")),
        }
    }

    /// Waits for a signal, or the end of stdin or of the parent, and stops the broker; a second
    /// signal gives up the stop.
    fn wait_and_stop(
        self,
        broker: Arc<Broker>,
        admin: Option<AdminHttp>,
        ends: Ends,
    ) -> Result<(), Failure> {
        let Self { runtime, mut terminate, mut interrupt, mut hangup } = self;
        let Ends { stdin, parent } = ends;
        runtime.block_on(async {
            let why = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                Some(_) = next(&mut hangup) => "SIGHUP",
                Some(_) = async { Some(stdin?.await) } => "stdin ended",
                Some(_) = async { Some(parent?.await) } => "the parent process ended",
            };
            tracing::info!(why, "stopping");
            if let Some(admin) = &admin {
                admin.set_ready(false);
            }
            let (done, stopped) = oneshot::channel();
            let stopping = std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
                broker.stop();
                // No receiver is left after a second signal.
                let _ = done.send(());
            });
            if let Err(error) = stopping {
                return Err(gave_up(&error.to_string()));
            }
            tokio::select! {
                _ = stopped => Ok(()),
                _ = terminate.recv() => Err(gave_up("a second signal came")),
                _ = interrupt.recv() => Err(gave_up("a second signal came")),
                // A terminal that goes away may say so twice, to the group and to the session: only
                // the other signals mean haste.
            }
        })
    }
}

async fn next(signal: &mut Option<Signal>) -> Option<()> {
    signal.as_mut()?.recv().await
}

/// Whether SIGHUP was set to be ignored when the process began, as `nohup` does.
fn ignores_hangup() -> bool {
    const HANGUP_BIT: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP_BIT != 0)
}

fn gave_up(why: &str) -> Failure {
    Failure::refused(
        "stopped without closing the logs".to_owned(),
        why.to_owned(),
        "nothing acknowledged is lost; the next start checks the logs' ends.",
    )
}
