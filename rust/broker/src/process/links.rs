//! Links between brokers that a test cuts. The embedder of a broker in this process calls a method.
//! A child process reads lines of stdin: each has all addresses that the broker cannot reach.

use std::collections::HashSet;
use std::io::BufRead;
use std::sync::{Arc, mpsc};

use kafkalite_connection::{CutLinks, HostPort};

use super::failure::Failure;
use super::say;
use crate::config::parse_host_port;

/// The brokers that a broker cannot reach. Clones are the same ones.
#[derive(Clone, Default)]
pub struct Links(pub(super) Arc<CutLinks>);

impl Links {
    /// Cuts the links to the brokers at these addresses, and mends all others.
    ///
    /// # Errors
    /// One of them is no address.
    pub fn cut<'a>(&self, addresses: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        let place = |address: &str| {
            let (host, port) = parse_host_port(address).filter(|(_, port)| *port != 0)?;
            Some(HostPort { host, port })
        };
        let places = addresses.map(|address| place(address).ok_or_else(|| no_address(address)));
        self.0.set(places.collect::<Result<HashSet<_>, _>>()?);
        Ok(())
    }

    /// Follows the lines of stdin, and tells on stdout when each counts. The first one has been
    /// read when this returns.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn from_stdin() -> Result<Self, Failure> {
        let (links, (first, heard)) = (Self::default(), mpsc::channel());
        let told = links.clone();
        let follow = move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                match told.cut(line.split_whitespace()) {
                    Ok(()) => say(&format!("links: {line}\n")),
                    Err(failure) => tracing::error!(%failure, "a line of stdin is not understood"),
                }
                // The first line alone is waited for.
                let _ = first.send(());
            }
        };
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(follow);
        thread.map_err(|error| {
            Failure::refused(
                "cannot read stdin".to_owned(),
                error.to_string(),
                "look at the limits of this process: threads, memory.",
            )
        })?;
        // An error says that stdin has ended: no link is cut.
        let _ = heard.recv();
        Ok(links)
    }
}

fn no_address(text: &str) -> Failure {
    Failure::usage(
        format!("a link leads to HOST:PORT, not to {text}"),
        "give the addresses of the other brokers' listeners.".to_owned(),
    )
}
