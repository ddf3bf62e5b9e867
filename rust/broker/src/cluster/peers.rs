//! The way to the other brokers: a thread with the connections of the quorum.
//!
//! A snapshot must not stand before a heartbeat, and what waits for a commit before neither, so
//! there are five connections to each broker. A broker says on that of the quorum's heartbeats that
//! it is alive. Proposals wait for the disks of a majority, and a slow disk is no death.
//! Figures for the admin API go beside all that, on a connection that the first question opens.

use crate::metadata::MetadataError;
use crate::metadata::quorum::{Accepted, Forward, Forwarded, Outcome};
use bytes::Bytes;
use kafkalite_connection::{
    Backoff, Connection, ConnectionConfig, ConnectionError, CutLinks, HostPort, Lane as PoolLane,
    Pool,
};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::Request;
use kafkalite_protocol::messages::broker_heartbeat::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse,
};
use kafkalite_protocol::messages::describe_figures::{
    DescribeFiguresRequest, DescribeFiguresResponse,
};
use kafkalite_protocol::messages::propose_records::{
    ProposeRecordsRequest, ProposeRecordsResponse,
};
use kafkalite_protocol::messages::quorum::QuorumRequest;
use kafkalite_quorum::{Answer, Endpoint, Lane, Transport, time_for};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Outcomes of a proposal, as they stand in the answer to the broker that sent it.
pub mod outcome {
    /// They count.
    pub const COMMITTED: i8 = 0;
    /// Others were faster.
    pub const OVERTAKEN: i8 = 1;
    /// It is not known whether they count.
    pub const UNKNOWN: i8 = 2;
    /// The broker does not lead.
    pub const NOT_LEADER: i8 = 3;
    /// They are refused.
    pub const REFUSED: i8 = 4;
}

/// What brokers call themselves to each other.
pub const CLIENT_ID: &str = "kafkalite-broker";

/// How long a broker may take to answer a proposal or a heartbeat.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a broker's system may take to say whether anyone listens.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The connections of brokers among each other.
pub fn connection_config() -> ConnectionConfig {
    let millis = Duration::from_millis;
    ConnectionConfig {
        bootstrap_servers: Vec::new(),
        client_id: CLIENT_ID.to_owned(),
        request_timeout: CONTROL_TIMEOUT,
        bootstrap_timeout: CONTROL_TIMEOUT,
        setup_timeout: Backoff { initial: millis(1_000), max: millis(5_000) },
        reconnect_backoff: Backoff { initial: millis(20), max: millis(500) },
        retry_backoff: Backoff { initial: millis(50), max: millis(500) },
        metadata_max_age: Duration::ZERO,
        metadata_max_idle: Duration::ZERO,
        rebootstrap: false,
        connections_max_idle: None,
        send_buffer: None,
        receive_buffer: None,
        response_max_bytes: 16 << 20,
        allow_auto_create_topics: false,
    }
}

/// Whether a broker takes connections.
pub enum Reach {
    /// It has taken this one.
    Open(Arc<Connection>),
    /// Its system says that no process listens at the port.
    Refused,
    /// It is not known why there is no connection.
    Silent,
}

/// Pools of connections; each broker has one in each.
struct Lanes {
    log: Pool,
    heartbeat: Pool,
    snapshot: Pool,
    control: Pool,
    figures: Pool,
    /// A number for each address, as pools know brokers by number.
    places: Mutex<HashMap<HostPort, i32>>,
}

/// The thread, and what runs on it.
pub struct Peers {
    cluster_id: String,
    broker_id: i32,
    lanes: Arc<Lanes>,
    runtime: Handle,
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Peers {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        cluster_id: &str,
        broker_id: i32,
        links: Option<Arc<CutLinks>>,
    ) -> std::io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            // An error says that the peers were dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("cluster".to_owned()).spawn(run)?;
        let config = Arc::new(connection_config());
        let pool = || Pool::over(Arc::clone(&config), links.clone());
        let lanes = Lanes {
            log: pool(),
            heartbeat: pool(),
            snapshot: pool(),
            control: pool(),
            figures: pool(),
            places: Mutex::default(),
        };
        let (cluster_id, lanes) = (cluster_id.to_owned(), Arc::new(lanes));
        let running = Mutex::new(Some((stop, thread)));
        Ok(Arc::new(Self { cluster_id, broker_id, lanes, runtime: handle, running }))
    }

    /// Where futures run.
    pub const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Tells the leader at `to` that this broker is alive, behind nothing that waits for a commit.
    pub async fn tell_alive(
        &self,
        to: &Endpoint,
        request: BrokerHeartbeatRequest,
    ) -> Result<BrokerHeartbeatResponse, ConnectionError> {
        self.ask_in(&self.lanes.heartbeat, to, request).await
    }

    /// Sends `request` to the broker at `to`, beside what the quorum sends.
    pub async fn ask<R: Request>(
        &self,
        to: &Endpoint,
        request: R,
    ) -> Result<R::Response, ConnectionError> {
        self.ask_in(&self.lanes.control, to, request).await
    }

    /// Asks the broker at `to` for its figures.
    pub async fn ask_figures(
        &self,
        to: &Endpoint,
        request: DescribeFiguresRequest,
    ) -> Result<DescribeFiguresResponse, ConnectionError> {
        self.ask_in(&self.lanes.figures, to, request).await
    }

    async fn ask_in<R: Request>(
        &self,
        pool: &Pool,
        to: &Endpoint,
        request: R,
    ) -> Result<R::Response, ConnectionError> {
        let connection = self.lanes.connection(pool, to).await?;
        let answer = connection.send_with::<R>(i16::MAX, CONTROL_TIMEOUT, |_| request);
        answer.await.map(|(_, response)| response)
    }

    /// Connects to the broker at `to`, if there is no connection to it.
    pub async fn reach(&self, to: &Endpoint) -> Reach {
        match self.lanes.connection(&self.lanes.control, to).await {
            Ok(connection) => Reach::Open(connection),
            Err(_) if is_refused(to).await => Reach::Refused,
            Err(_) => Reach::Silent,
        }
    }

    /// Ends the thread; calls under way are dropped.
    pub fn stop(&self) {
        let Some((stop, thread)) = self.running.lock().take() else { return };
        // An error says that the thread is gone already.
        let _ = stop.send(());
        let is_own = thread.thread().id() == std::thread::current().id();
        if !is_own && thread.join().is_err() {
            tracing::error!("the thread of the cluster's connections panicked");
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Lanes {
    async fn connection(
        &self,
        pool: &Pool,
        to: &Endpoint,
    ) -> Result<Arc<Connection>, ConnectionError> {
        let place = HostPort { host: to.host.clone(), port: to.port };
        let number = {
            let mut places = self.places.lock();
            let next = i32::try_from(places.len()).unwrap_or(i32::MAX);
            *places.entry(place.clone()).or_insert(next)
        };
        pool.connection(number, PoolLane::Data, &place).await
    }

    async fn call(&self, to: Endpoint, lane: Lane, body: Bytes) -> Result<Bytes, String> {
        let (pool, timeout_s) = match lane {
            Lane::Log => (&self.log, 5),
            Lane::Heartbeat => (&self.heartbeat, 2),
            Lane::Snapshot => (&self.snapshot, 15),
        };
        let connection = self.connection(pool, &to).await.map_err(|error| error.to_string())?;
        let timeout = Duration::from_secs(timeout_s) + time_for(body.len());
        let answer = connection.send_with::<QuorumRequest>(0, timeout, |_| QuorumRequest { body });
        match answer.await {
            Ok((_, answer)) if answer.error_code == 0 => Ok(answer.body),
            Ok((_, answer)) => Err(name_of(answer.error_code)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Whether the system at `to` says that no process listens. The pool would wait before it tries
/// again.
pub async fn is_refused(to: &Endpoint) -> bool {
    let connect = TcpStream::connect((to.host.as_str(), to.port));
    let tried = tokio::time::timeout(PROBE_TIMEOUT, connect).await;
    matches!(tried, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

fn name_of(code: i16) -> String {
    ErrorCode::from_code(code).name().to_owned()
}

impl Transport for Peers {
    fn call(&self, to: &Endpoint, lane: Lane, request: Bytes) -> Answer {
        let (lanes, to) = (Arc::clone(&self.lanes), to.clone());
        let call = self.runtime.spawn(async move { lanes.call(to, lane, request).await });
        Box::pin(async move { call.await.unwrap_or_else(|error| Err(error.to_string())) })
    }
}

impl Forward for Peers {
    fn forward(
        &self,
        to: &Endpoint,
        expected: i64,
        batch: Bytes,
    ) -> Pin<Box<dyn Future<Output = Forwarded> + Send>> {
        let (lanes, to) = (Arc::clone(&self.lanes), to.clone());
        let (cluster_id, broker_id) = (self.cluster_id.clone(), self.broker_id);
        let timeout = CONTROL_TIMEOUT + time_for(batch.len());
        let request = ProposeRecordsRequest { cluster_id, broker_id, expected, batch };
        Box::pin(async move {
            let connection = match lanes.connection(&lanes.control, &to).await {
                Ok(connection) => connection,
                Err(error) => return Forwarded::Unreached(error.to_string()),
            };
            let answer = connection.send_with::<ProposeRecordsRequest>(0, timeout, |_| request);
            Forwarded::Answered(match answer.await {
                Ok((_, answer)) => accepted(expected, answer),
                Err(error) => unknown(error.to_string()),
            })
        })
    }
}

fn unknown(reason: String) -> Accepted {
    Accepted::Outcome(Outcome::Unknown(MetadataError::NoController { reason }))
}

fn accepted(expected: i64, answer: ProposeRecordsResponse) -> Accepted {
    let reason = answer.error_message.unwrap_or_else(|| name_of(answer.error_code));
    Accepted::Outcome(match answer.outcome {
        // Records that count stand behind those that they were decided upon. A decision without
        // records is confirmed at the offset that it was made on.
        outcome::COMMITTED if answer.error_code == 0 && answer.offset >= expected => {
            Outcome::Committed(answer.offset)
        }
        outcome::OVERTAKEN => {
            Outcome::Rejected(MetadataError::Overtaken { expected, found: answer.offset })
        }
        outcome::NOT_LEADER => return Accepted::NotLeader,
        outcome::REFUSED => Outcome::Rejected(MetadataError::Refused { reason }),
        _ => return unknown(reason),
    })
}

#[cfg(test)]
mod tests;
