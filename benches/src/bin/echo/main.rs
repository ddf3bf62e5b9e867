//! What an event loop costs: the same echo server on raw epoll, on mio and on tokio.
//!
//! Every connection sends 200 bytes, awaits 100 and sends again, the shape of a small produce
//! request and its acknowledgement. The servers do nothing else, so what differs is the loop.
//! A round measures all loops one after the other and rotates who begins; a round in which other
//! processes took too much CPU is measured again. The ratios are taken inside a round.
//! ADR 0050 carries the figures and what follows from them.

mod inline;
mod queued;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use kafkalite_benches::args::Args;
use kafkalite_benches::figures::{Histogram, Spread};
use kafkalite_benches::{cpu, sys};

const REQUEST_BYTES: usize = 200;
const RESPONSE_BYTES: usize = 100;
const READ_BUFFER_BYTES: usize = 64 * 1024;

type Loop = fn(Vec<TcpStream>) -> io::Result<()>;
type Loops = [(&'static str, Loop); 3];
/// The event loop answers.
const INLINE: Loops =
    [("raw epoll", inline::raw_epoll), ("mio", inline::on_mio), ("tokio", inline::on_tokio)];
/// The event loop hands each request to an I/O thread, which hands the answer back.
const QUEUED: Loops =
    [("raw epoll", queued::raw_epoll), ("mio", queued::on_mio), ("tokio", queued::on_tokio)];

/// Closed loop on every connection until `duration` is over; latencies of all requests.
fn drive(mut connections: Vec<TcpStream>, duration: Duration) -> io::Result<Histogram> {
    let epoll = sys::Epoll::new()?;
    let begin = Instant::now();
    let mut sent_at = vec![begin; connections.len()];
    for (token, connection) in connections.iter_mut().enumerate() {
        epoll.add(connection, token as u64, sys::Interest::Read)?;
        connection.write_all(&[1; REQUEST_BYTES])?;
    }
    let (mut histogram, mut events) = (Histogram::default(), sys::events());
    let mut response = [0; RESPONSE_BYTES];
    // After the time is up only the answers under way are awaited: closing before they arrived
    // would reset the connection.
    let mut in_flight = connections.len();
    while in_flight > 0 {
        for token in epoll.wait(&mut events, None)? {
            let token = token as usize;
            let n = connections[token].read(&mut response)?;
            // Both sides write whole answers into an empty socket buffer: they never split.
            assert_eq!(n, RESPONSE_BYTES, "an answer arrived in parts");
            let now = Instant::now();
            histogram.record((now - sent_at[token]).as_nanos() as u64);
            if now - begin >= duration {
                in_flight -= 1;
                continue;
            }
            sent_at[token] = now;
            connections[token].write_all(&[1; REQUEST_BYTES])?;
        }
    }
    Ok(histogram)
}

struct Figures {
    requests_per_second: f64,
    server_cpu_us: f64,
    p50_us: f64,
    p999_us: f64,
}

fn measure(serve: Loop, connections: usize, time: Duration, pin: bool) -> io::Result<Figures> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    sys::set_congestion_control(&listener, "reno")?;
    let (mut clients, mut accepted) = (Vec::new(), Vec::new());
    for _ in 0..connections {
        clients.push(TcpStream::connect(listener.local_addr()?)?);
        accepted.push(listener.accept()?.0);
    }
    for stream in clients.iter().chain(&accepted) {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    let begin = sys::process_cpu();
    let server = thread::spawn(move || {
        if pin {
            sys::pin_thread(0)?;
        }
        serve(accepted)
    });
    let client = thread::spawn(move || {
        if pin {
            sys::pin_thread(1)?;
        }
        Ok::<_, io::Error>((drive(clients, time)?, sys::thread_cpu()))
    });
    let client = client.join().map_err(|_| io::Error::other("the client panicked"))?;
    let (histogram, client_cpu) = client?;
    server.join().map_err(|_| io::Error::other("the server panicked"))??;
    // Whatever this process used and the client did not: one server thread, or two.
    let server_cpu = sys::process_cpu() - begin - client_cpu;
    let requests = histogram.total() as f64;
    Ok(Figures {
        requests_per_second: requests / time.as_secs_f64(),
        server_cpu_us: server_cpu.as_secs_f64() * 1e6 / requests,
        p50_us: histogram.quantile_ns(0.5) as f64 / 1e3,
        p999_us: histogram.quantile_ns(0.999) as f64 / 1e3,
    })
}

struct Plan {
    rounds: usize,
    time: Duration,
    pin: bool,
    /// A round during which other processes took more of the machine is measured again.
    max_foreign_percent: f64,
}

fn run(plan: &Plan, loops: &Loops, connections: usize, out: &mut impl Write) -> io::Result<()> {
    let mut rounds: Vec<[Figures; 3]> = Vec::new();
    let mut discarded = 0;
    while rounds.len() < plan.rounds && discarded < plan.rounds * 20 {
        let (first, watch) = (rounds.len() + discarded, cpu::ForeignShare::begin(None)?);
        let mut by_loop: [Option<Figures>; 3] = [None, None, None];
        for turn in 0..loops.len() {
            let which = (first + turn) % loops.len();
            by_loop[which] = Some(measure(loops[which].1, connections, plan.time, plan.pin)?);
        }
        match by_loop {
            [Some(raw), Some(mio), Some(tokio)] if watch.percent()? < plan.max_foreign_percent => {
                rounds.push([raw, mio, tokio]);
            }
            _ => discarded += 1,
        }
    }
    writeln!(out, "{connections} connections, {} rounds, {discarded} discarded", rounds.len())?;
    for (which, (name, _)) in loops.iter().enumerate() {
        let spread = |figure: fn(&Figures, &Figures) -> f64| {
            let values: Vec<f64> = rounds.iter().map(|r| figure(&r[which], &r[0])).collect();
            Spread::of(&values)
        };
        writeln!(
            out,
            "  {name:9}  req/s {} = x{}  server CPU us/req {} = x{}  p50 us {}  p99.9 us {}",
            spread(|own, _| own.requests_per_second),
            spread(|own, raw| own.requests_per_second / raw.requests_per_second),
            spread(|own, _| own.server_cpu_us),
            spread(|own, raw| own.server_cpu_us / raw.server_cpu_us),
            spread(|own, _| own.p50_us),
            spread(|own, _| own.p999_us),
        )?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let known = ["rounds", "ms", "connections", "pin", "max-foreign-percent"];
    let args = Args::parse(std::env::args().skip(1), &known)?;
    let plan = Plan {
        rounds: args.get("rounds", 9)?,
        time: Duration::from_millis(args.get("ms", 500)?),
        pin: args.get("pin", false)?,
        max_foreign_percent: args.get("max-foreign-percent", 100.0)?,
    };
    let connections: usize = args.get("connections", 0)?;
    let sizes = if connections == 0 { vec![8, 1] } else { vec![connections] };
    let mut out = io::stdout();
    for (shape, loops) in [("inline", INLINE), ("queued", QUEUED)] {
        for &connections in &sizes {
            write!(out, "{shape}, ")?;
            run(&plan, &loops, connections, &mut out)?;
        }
    }
    Ok(())
}
