//! The ceiling: the smallest server that does a Kafka broker's work, to measure ours against.
//!
//! It takes the same Produce and Fetch frames as a broker, checks the batch's CRC-32C, appends it
//! with one `pwrite` and acknowledges; a fetch is a header and a `sendfile`. It has no topics, no
//! index, no purgatory, no recovery and trusts its client. One network thread, and:
//!
//! - `inline`: that thread does all the work;
//! - `queued`: an I/O thread does it, and the network thread reads on meanwhile;
//! - `muted`: as queued, but shaped like Apache Kafka: the size is read apart, a connection has
//!   one request in flight and is deaf until its answer is out, a fetch's header is sent apart.
//!
//! `ceiling --mode inline --data-dir DIR` prints `ready: HOST:PORT` and serves until it is killed.

mod connection;
mod network;
mod store;

use std::io::{self, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use kafkalite_benches::args::Args;
use kafkalite_benches::sys;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse(std::env::args().skip(1), &["mode", "data-dir", "listen"])?;
    let mode = match args.get("mode", "inline".to_owned())?.as_str() {
        "inline" => network::Mode::Inline,
        "queued" => network::Mode::Queued,
        "muted" => network::Mode::Muted,
        other => return Err(format!("--mode {other}: inline, queued or muted").into()),
    };
    let store = store::Store::open(args.get("data-dir", PathBuf::from("kafkalite-data"))?)?;
    let listener = TcpListener::bind(args.get("listen", "127.0.0.1:0".to_owned())?)?;
    sys::set_congestion_control(&listener, "reno")?;
    writeln!(io::stdout(), "ready: {}", listener.local_addr()?)?;
    network::serve(&listener, store, mode)?;
    Ok(())
}
