//! Commands of test control as JSON: what the admin API and Python send.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::TestControl;
use super::fault::Fault;
use super::recordings::Page;
use super::refusal::Refused;
use super::snapshots::Nothing;
use super::spec::Spec;

/// A fault as its maker sees it.
#[derive(Serialize)]
struct Told<'a> {
    id: u64,
    /// Of which life of the broker it is.
    life: &'a str,
    #[serde(flatten)]
    spec: &'a Spec,
    /// Calls that matched.
    seen: u64,
    /// Calls that were struck.
    fired: u64,
    /// No later call can be struck.
    spent: bool,
}

#[derive(Serialize)]
struct List<'a> {
    faults: Vec<Told<'a>>,
}

#[derive(Serialize)]
struct Removed {
    removed: usize,
}

impl<'a> Told<'a> {
    fn new(fault: &'a Fault, life: &'a str) -> Self {
        let (seen, fired) = fault.counts();
        Self { id: fault.id, life, spec: &fault.checked.spec, seen, fired, spent: fault.is_spent() }
    }
}

fn json(answer: &impl Serialize) -> Vec<u8> {
    // Names and numbers always have a form in JSON.
    serde_json::to_vec(answer).unwrap_or_default()
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        let hint = "GET /api/v1/openapi.json describes it.";
        Refused::bad("the request cannot be read", error.to_string(), hint)
    })
}

/// A body, which may be left out.
fn or_nothing(body: &[u8]) -> &[u8] {
    if body.is_empty() { b"{}" } else { body }
}

/// The client that an explanation is about; `None`: all of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meant {
    #[serde(default)]
    client_id: Option<String>,
}

/// The life of the broker that a program means; `None`: this one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLife {
    #[serde(default)]
    life: Option<String>,
}

/// What a command made; its other members are left out.
#[derive(Deserialize)]
struct Made {
    id: u64,
}

fn unknown(id: u64) -> Refused {
    let (what, why) = (format!("there is no fault {id}"), "it was removed, or never added");
    let hint = "GET /api/v1/faults lists the faults.".to_owned();
    Refused { status: 404, what, why: why.to_owned(), hint }
}

impl TestControl {
    /// Adds a fault that is written as JSON; the fault with its id.
    ///
    /// # Errors
    /// It cannot be read, or its members do not go together.
    pub fn add_fault(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let checked = read::<Spec>(body)?.check()?;
        let fault = self.add(checked)?;
        Ok(json(&Told::new(&fault, self.life.as_str())))
    }

    /// The faults in force.
    pub fn list_faults(&self) -> Vec<u8> {
        let faults = self.faults.load();
        let life = self.life.as_str();
        json(&List { faults: faults.iter().map(|fault| Told::new(fault, life)).collect() })
    }

    /// One of them, of this life of the broker or of the one that is named.
    ///
    /// # Errors
    /// There is none.
    pub fn show_fault(&self, id: u64, life: Option<&str>) -> Result<Vec<u8>, Refused> {
        self.life.check(life, &format!("fault {id}"))?;
        let faults = self.faults.load();
        let fault = faults.iter().find(|fault| fault.id == id).ok_or_else(|| unknown(id))?;
        Ok(json(&Told::new(fault, self.life.as_str())))
    }

    /// Removes one, and tells how often it struck.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_fault(self: &Arc<Self>, id: u64, life: Option<&str>) -> Result<Vec<u8>, Refused> {
        self.life.check(life, &format!("fault {id}"))?;
        let fault = self.faults.load().iter().find(|fault| fault.id == id).cloned();
        let fault = fault.ok_or_else(|| unknown(id))?;
        self.remove(|fault| fault.id == id);
        Ok(json(&Told::new(&fault, self.life.as_str())))
    }

    /// Removes all.
    pub fn clear_faults(self: &Arc<Self>) -> Vec<u8> {
        json(&Removed { removed: self.remove(|_| true) })
    }

    /// The clock.
    pub fn show_clock(&self) -> Vec<u8> {
        json(&self.told_clock())
    }

    /// Moves the clock.
    ///
    /// # Errors
    /// The command cannot be read, or the clock would be too far ahead.
    pub fn advance_clock(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let how = read(body)?;
        self.while_running(|| Ok(json(&self.advance(&how)?)))
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// The command has members, the broker is one of a cluster, or its disk refuses.
    pub fn take_snapshot_as(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let Nothing {} = read(or_nothing(body))?;
        self.while_running(|| Ok(json(&self.take_snapshot()?)))
    }

    /// The snapshots.
    ///
    /// # Errors
    /// The broker is one of a cluster.
    pub fn list_snapshots(&self) -> Result<Vec<u8>, Refused> {
        Ok(json(&self.told_snapshots()?))
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// There is none, or the disk refuses.
    pub fn remove_snapshot(&self, id: u64) -> Result<Vec<u8>, Refused> {
        self.while_running(|| Ok(json(&self.delete_snapshot(id)?)))
    }

    /// Starts a fork.
    ///
    /// # Errors
    /// The command cannot be read, there is no such snapshot, or the fork does not start.
    pub fn add_fork(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let wanted = read(or_nothing(body))?;
        self.while_running(|| Ok(json(&self.fork(&wanted)?)))
    }

    /// The forks.
    pub fn list_forks(&self) -> Vec<u8> {
        json(&self.told_forks())
    }

    /// Ends a fork.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_fork(&self, id: u64) -> Result<Vec<u8>, Refused> {
        Ok(json(&self.delete_fork(id)?))
    }

    /// Why a client is stuck; without a client, why each of them is.
    ///
    /// # Errors
    /// The broker does not run.
    pub fn explain(&self, client_id: Option<&str>) -> Result<Vec<u8>, Refused> {
        Ok(json(&self.explained(client_id)?))
    }

    /// Begins a recording.
    ///
    /// # Errors
    /// The command cannot be read, or its members have no meaning.
    pub fn add_recording(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        Ok(json(&self.record(read(or_nothing(body))?)?))
    }

    /// The recordings.
    pub fn list_recordings(&self) -> Vec<u8> {
        json(&self.told_recordings())
    }

    /// A page of a recording.
    ///
    /// # Errors
    /// There is no such recording, or the page is too large.
    pub fn read_recording(&self, id: u64, page: &Page) -> Result<Vec<u8>, Refused> {
        self.life.check(page.life.as_deref(), &format!("recording {id}"))?;
        Ok(json(&self.recorded(id, page)?))
    }

    /// Ends a recording; what it has stays.
    ///
    /// # Errors
    /// There is none.
    pub fn end_recording(&self, id: u64, life: Option<&str>) -> Result<Vec<u8>, Refused> {
        self.life.check(life, &format!("recording {id}"))?;
        Ok(json(&self.stop_recording(id)?))
    }

    /// Removes a recording.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_recording(&self, id: u64, life: Option<&str>) -> Result<Vec<u8>, Refused> {
        self.life.check(life, &format!("recording {id}"))?;
        Ok(json(&self.delete_recording(id)?))
    }

    /// Moves the leader of a partition.
    ///
    /// # Errors
    /// The command cannot be read, or no such replica can lead.
    pub fn move_leader_as(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let wanted = read(body)?;
        self.while_running(|| Ok(json(&self.move_leader(&wanted)?)))
    }

    /// Moves the leaders of all partitions.
    ///
    /// # Errors
    /// The command cannot be read, or there is no such topic.
    pub fn shuffle_leaders_as(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let wanted = read(or_nothing(body))?;
        self.while_running(|| Ok(json(&self.shuffle_leaders(&wanted)?)))
    }

    /// Moves the coordinator of a group.
    ///
    /// # Errors
    /// The command cannot be read, or no such replica can lead.
    pub fn move_coordinator_as(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let wanted = read(body)?;
        self.while_running(|| Ok(json(&self.move_coordinator(&wanted)?)))
    }

    /// Obeys a command about recordings, clients or leaders; `None`: it is about something else.
    fn command_of_notes(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Option<Result<Vec<u8>, Refused>> {
        let (folder, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or((&path[1..], ""));
        let (id, verb) = rest.split_once('/').unwrap_or((rest, ""));
        let id: Option<u64> = id.parse().ok();
        Some(match (method, folder, id, verb) {
            ("GET", "explain", None, "") => read::<Meant>(or_nothing(body))
                .and_then(|meant| self.explain(meant.client_id.as_deref())),
            ("POST", "leaders", None, "") if rest == "move" => self.move_leader_as(body),
            ("POST", "leaders", None, "") if rest == "shuffle" => self.shuffle_leaders_as(body),
            ("POST", "coordinators", None, "") if rest == "move" => self.move_coordinator_as(body),
            ("POST", "recordings", None, "") => self.add_recording(body),
            ("GET", "recordings", None, "") => Ok(self.list_recordings()),
            ("GET", "recordings", Some(id), "") => {
                read(or_nothing(body)).and_then(|page| self.read_recording(id, &page))
            }
            ("POST", "recordings", Some(id), "stop") => read::<OfLife>(or_nothing(body))
                .and_then(|of| self.end_recording(id, of.life.as_deref())),
            ("DELETE", "recordings", Some(id), "") => read::<OfLife>(or_nothing(body))
                .and_then(|of| self.remove_recording(id, of.life.as_deref())),
            _ => return None,
        })
    }

    /// Takes back what a command of Python's made, a snapshot or a fork, if Ctrl-C ended the wait
    /// for it. `made` is the answer of the command.
    pub fn take_back(self: &Arc<Self>, method: &str, path: &str, made: &[u8]) {
        if method != "POST" || !["/snapshots", "/forks"].contains(&path) {
            return;
        }
        let taken = read::<Made>(made)
            .and_then(|made| self.command("DELETE", &format!("{path}/{}", made.id), b""));
        if let Err(refused) = taken {
            tracing::warn!(why = refused.why, "what an interrupted command made stays");
        }
    }

    /// Obeys a command of Python's, which has the form of the admin API's.
    ///
    /// # Errors
    /// As those of the other functions; 404 for a path that does not exist.
    pub fn command(
        self: &Arc<Self>,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        if let Some(answer) = self.command_of_notes(method, path, body) {
            return answer;
        }
        let id = |folder: &str| path.strip_prefix(folder).and_then(|id| id.parse().ok());
        match (method, id("/snapshots/"), id("/forks/")) {
            ("DELETE", Some(id), _) => return self.remove_snapshot(id),
            ("DELETE", _, Some(id)) => return self.remove_fork(id),
            _ => {}
        }
        match (method, path, id("/faults/")) {
            ("POST", "/faults", _) => self.add_fault(body),
            ("GET", "/faults", _) => Ok(self.list_faults()),
            ("DELETE", "/faults", _) => Ok(self.clear_faults()),
            ("GET", "/clock", _) => Ok(self.show_clock()),
            ("POST", "/clock/advance", _) => self.advance_clock(body),
            ("POST", "/snapshots", _) => self.take_snapshot_as(body),
            ("GET", "/snapshots", _) => self.list_snapshots(),
            ("POST", "/forks", _) => self.add_fork(body),
            ("GET", "/forks", _) => Ok(self.list_forks()),
            ("GET", _, Some(id)) => read::<OfLife>(or_nothing(body))
                .and_then(|of| self.show_fault(id, of.life.as_deref())),
            ("DELETE", _, Some(id)) => read::<OfLife>(or_nothing(body))
                .and_then(|of| self.remove_fault(id, of.life.as_deref())),
            _ => {
                let (what, why) = ("there is nothing here", "test control has no such path");
                let hint = "GET /api/v1/openapi.json lists what there is.";
                let (what, why, hint) = (what.to_owned(), why.to_owned(), hint.to_owned());
                Err(Refused { status: 404, what, why, hint })
            }
        }
    }
}
