//! The load generator: Produce or Fetch against anything that speaks Kafka's protocol.
//!
//! One thread, nonblocking connections, N requests in flight on each. Closed loop as fast as the
//! answers come, or open loop with `--rate`: then a latency counts from when the request was due,
//! so that a stalled server cannot hide its stall by slowing the load. Frames are encoded once;
//! the same bytes go to `ceiling` and to a broker. Prints one line of JSON.
//!
//! Figures of the server (`--server-pid`) come from `/proc`: CPU seconds, `read`- and `write`-like
//! syscalls (not `recv` and `send`, which the kernel does not count there) and context switches.
//! Warm-up requests come first and count nowhere.

mod connection;
mod verify;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kafkalite_benches::args::Args;
use kafkalite_benches::cpu::{ForeignShare, ServerUse};
use kafkalite_benches::figures::Histogram;
use kafkalite_benches::frames::{self, ResponseLayout, i16_at};
use kafkalite_benches::sys;

use connection::{Connection, Goal};

type Failure = Box<dyn std::error::Error>;

/// Frames in the ring of each connection when fetching: so many offsets are read in turn.
const FETCH_FRAMES: i32 = 16;
const FLAGS: [&str; 18] = [
    "address",
    "mode",
    "topic",
    "partitions",
    "create",
    "connections",
    "in-flight",
    "acks",
    "batch-bytes",
    "record-bytes",
    "fetch-bytes",
    "fetch-stride",
    "seconds",
    "max-megabytes",
    "warm-up",
    "rate",
    "server-pid",
    "records",
];

/// What the command line asks for.
struct Plan {
    address: String,
    mode: String,
    topic: String,
    /// Connection i uses partition i modulo this.
    partitions: i32,
    /// Create the topic first; a broker needs it, `ceiling` has none.
    create: bool,
    connections: usize,
    in_flight: usize,
    acks: i16,
    batch_bytes: usize,
    record_bytes: usize,
    fetch_bytes: i32,
    /// Records between the offsets that are fetched in turn.
    fetch_stride: i64,
    seconds: f64,
    /// Ends a run early: a fresh file must not outgrow what the kernel lets be dirty.
    max_megabytes: f64,
    warm_up: u64,
    /// Requests a second over all connections, open loop; 0 is closed loop.
    rate: f64,
    server_pid: Option<u32>,
    /// How many records `--mode verify` must find.
    records: i64,
}

impl Plan {
    fn parse() -> Result<Self, String> {
        let args = Args::parse(std::env::args().skip(1), &FLAGS)?;
        Ok(Self {
            address: args.get("address", "127.0.0.1:9092".to_owned())?,
            mode: args.get("mode", "produce".to_owned())?,
            topic: args.get("topic", "bench".to_owned())?,
            partitions: args.get("partitions", 1)?,
            create: args.get("create", false)?,
            connections: args.get("connections", 1)?,
            in_flight: args.get("in-flight", 5)?,
            acks: args.get("acks", 1)?,
            batch_bytes: args.get("batch-bytes", 16_384)?,
            record_bytes: args.get("record-bytes", 1000)?,
            fetch_bytes: args.get("fetch-bytes", 1 << 20)?,
            fetch_stride: args.get("fetch-stride", 0)?,
            seconds: args.get("seconds", 2.0)?,
            max_megabytes: args.get("max-megabytes", f64::INFINITY)?,
            warm_up: args.get("warm-up", 100)?,
            rate: args.get("rate", 0.0)?,
            server_pid: Some(args.get("server-pid", 0)?).filter(|pid| *pid != 0),
            records: args.get("records", -1)?,
        })
    }

    /// The frames one connection sends in turn, and the records in each.
    fn frames(&self, partition: i32) -> Result<(Vec<Vec<u8>>, i32), Failure> {
        if self.mode == "fetch" {
            let frames = (0..FETCH_FRAMES).map(|slot| {
                let offset = i64::from(slot) * self.fetch_stride;
                frames::fetch(slot, &self.topic, partition, offset, self.fetch_bytes)
            });
            return Ok((frames.collect(), 0));
        }
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        let (batch, records) = frames::record_batch(self.batch_bytes, self.record_bytes, now_ms);
        let frames = (0..self.in_flight as i32)
            .map(|slot| frames::produce(slot, &self.topic, partition, self.acks, &batch));
        Ok((frames.collect(), records))
    }

    fn layout(&self) -> ResponseLayout {
        match self.mode.as_str() {
            "fetch" => ResponseLayout::fetch(&self.topic),
            _ => ResponseLayout::produce(&self.topic),
        }
    }
}

/// Sends one frame and awaits its answer (without the length).
fn exchange(socket: &mut TcpStream, frame: &[u8]) -> io::Result<Vec<u8>> {
    socket.write_all(frame)?;
    let mut len = [0; 4];
    socket.read_exact(&mut len)?;
    let mut answer = vec![0; u32::from_be_bytes(len) as usize];
    socket.read_exact(&mut answer)?;
    Ok(answer)
}

/// Creates the topic and waits until every partition answers without an error.
fn create_topic(plan: &Plan) -> Result<(), Failure> {
    let mut socket = TcpStream::connect(&plan.address)?;
    let answer = exchange(&mut socket, &frames::create_topic(0, &plan.topic, plan.partitions))?;
    let error = i16_at(&answer, 14 + plan.topic.len()).ok_or("a short CreateTopics response")?;
    const TOPIC_ALREADY_EXISTS: i16 = 36;
    if error != 0 && error != TOPIC_ALREADY_EXISTS {
        return Err(format!("CreateTopics: error {error}").into());
    }
    let layout = ResponseLayout::fetch(&plan.topic);
    let deadline = Instant::now() + Duration::from_secs(10);
    for partition in 0..plan.partitions {
        // Offset -1 has no records, so an existing leader answers OFFSET_OUT_OF_RANGE at once.
        let frame = frames::fetch(0, &plan.topic, partition, -1, 1);
        loop {
            let answer = exchange(&mut socket, &frame)?;
            if let Some(0 | 1) = i16_at(&answer, layout.error) {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("partition {partition} got no leader").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Figures of a run; `requests` are those completed.
struct Outcome {
    requests: u64,
    bytes: u64,
    elapsed: Duration,
    latency: Histogram,
}

fn drive(connections: &mut [Connection], goal: &Goal) -> Result<Outcome, Failure> {
    let epoll = sys::Epoll::new()?;
    for (token, connection) in connections.iter_mut().enumerate() {
        epoll.add(&connection.socket, token as u64, sys::Interest::Read)?;
        connection.begin(goal);
    }
    let (mut events, mut latency) = (sys::events(), Histogram::default());
    let mut buffer = vec![0; 1 << 20];
    let begin = Instant::now();
    let (mut requests, mut bytes, mut wait) = (0, 0, Some(Duration::ZERO));
    loop {
        let mut ready = [false; 256];
        for token in epoll.wait(&mut events, wait)? {
            ready[token as usize] = true;
        }
        wait = None;
        let mut busy = false;
        let elapsed = begin.elapsed();
        let over = elapsed >= goal.duration || bytes >= goal.max_bytes || requests >= goal.requests;
        for (token, connection) in connections.iter_mut().enumerate() {
            if ready[token] {
                let progress = connection.receive(&mut buffer, &mut latency)?;
                requests += progress.requests;
                bytes += progress.bytes;
            }
            if !over {
                connection.allow(begin, Instant::now());
            }
            let progress = connection.send(&mut latency)?;
            requests += progress.requests;
            bytes += progress.bytes;
            if let Some(interest) = connection.changed_interest() {
                epoll.modify(&connection.socket, token as u64, interest)?;
            }
            busy |= connection.busy();
            if !over && let Some(due) = connection.next_due(begin) {
                let due_in = due.saturating_duration_since(Instant::now());
                wait = Some(wait.map_or(due_in, |wait: Duration| wait.min(due_in)));
            }
        }
        if over && !busy {
            return Ok(Outcome { requests, bytes, elapsed: begin.elapsed(), latency });
        }
        if !busy && wait.is_none() {
            // Nothing is under way and nothing is due: unacknowledged requests in a closed loop.
            wait = Some(Duration::ZERO);
        }
    }
}

fn main() -> Result<(), Failure> {
    let plan = Plan::parse()?;
    if plan.connections == 0 || plan.connections > 256 || plan.in_flight == 0 {
        return Err("--connections 1 to 256, --in-flight at least 1".into());
    }
    if plan.create {
        create_topic(&plan)?;
    }
    if plan.mode == "verify" {
        return verify::run(&plan);
    }
    sys::no_timer_slack()?;
    let (mut connections, mut records) = (Vec::new(), 0);
    for index in 0..plan.connections {
        let (frames, in_frame) = plan.frames(index as i32 % plan.partitions)?;
        records = in_frame;
        let acknowledged = plan.mode == "fetch" || plan.acks != 0;
        let socket = TcpStream::connect(&plan.address)?;
        let layout = plan.layout();
        connections.push(Connection::new(socket, &frames, layout, plan.in_flight, acknowledged)?);
    }
    let warm_up = drive(&mut connections, &Goal::requests(plan.warm_up))?;
    let watch = ForeignShare::begin(plan.server_pid)?;
    let before = ServerUse::of(plan.server_pid)?;
    let interval = plan.connections as f64 / plan.rate;
    let goal = Goal {
        duration: Duration::from_secs_f64(plan.seconds),
        max_bytes: (plan.max_megabytes * 1e6) as u64,
        requests: u64::MAX,
        interval: (plan.rate > 0.0).then(|| Duration::from_secs_f64(interval)),
    };
    let run = drive(&mut connections, &goal)?;
    let used = ServerUse::of(plan.server_pid)?.since(&before);
    let all_requests = run.requests + warm_up.requests;
    let all_records = all_requests as i64 * i64::from(records);
    let totals = [
        ("requests_with_warm_up", all_requests as f64),
        ("records_with_warm_up", all_records as f64),
        ("foreign_cpu_percent", watch.percent()?),
    ];
    report(&plan, &run, &used, &totals)
}

fn report(
    plan: &Plan,
    run: &Outcome,
    used: &ServerUse,
    totals: &[(&str, f64)],
) -> Result<(), Failure> {
    let (seconds, requests) = (run.elapsed.as_secs_f64(), run.requests.max(1) as f64);
    let us = |quantile| run.latency.quantile_ns(quantile) as f64 / 1e3;
    let figures = [
        ("requests", run.requests as f64),
        ("seconds", seconds),
        ("requests_per_second", requests / seconds),
        ("megabytes_per_second", run.bytes as f64 / 1e6 / seconds),
        ("bytes_per_request", run.bytes as f64 / requests),
        ("p50_us", us(0.5)),
        ("p99_us", us(0.99)),
        ("p999_us", us(0.999)),
        ("max_us", run.latency.max_ns() as f64 / 1e3),
        ("server_cpu_us_per_request", used.cpu_seconds * 1e6 / requests),
        ("server_cpu_seconds_per_gb", used.cpu_seconds * 1e9 / run.bytes.max(1) as f64),
        ("server_file_syscalls_per_request", used.file_syscalls / requests),
        ("server_context_switches_per_request", used.context_switches / requests),
    ];
    let fields: Vec<String> = figures
        .iter()
        .chain(totals)
        .map(|(name, value)| format!("\"{name}\": {value:.3}"))
        .collect();
    writeln!(io::stdout(), "{{\"mode\": \"{}\", {}}}", plan.mode, fields.join(", "))?;
    Ok(())
}
