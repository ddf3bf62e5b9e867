//! A producer of rskafka that survives NOT_LEADER_OR_FOLLOWER on the third produce: `cargo run`.
//!
//! It starts `kafkalite dev`, adds a fault over HTTP, and ends the broker.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use chrono::Utc;
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::record::Record;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A broker that ends with this value.
struct Broker {
    process: Child,
    ready: String,
    admin: String,
}

impl Broker {
    fn start() -> Result<Self, Failure> {
        let mut process = Command::new("kafkalite")
            .args(["dev", "--quiet", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().ok_or("the broker has no stdout")?;
        let (mut ready, mut admin) = (None, None);
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            ready = ready.or_else(|| line.strip_prefix("ready: ").map(str::to_owned));
            admin = admin.or_else(|| line.strip_prefix("admin: ").map(str::to_owned));
            if let (Some(ready), Some(admin)) = (&ready, &admin) {
                return Ok(Self { process, ready: ready.clone(), admin: admin.clone() });
            }
        }
        Err("the broker ended".into())
    }

    fn add_fault(&self, fault: &Value) -> Result<(), Failure> {
        ureq::post(format!("{}/api/v1/faults", self.admin)).send_json(fault)?;
        Ok(())
    }

    fn faults(&self) -> Result<Value, Failure> {
        let mut answer = ureq::get(format!("{}/api/v1/faults", self.admin)).call()?;
        Ok(answer.body_mut().read_json()?)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It has ended already if one of these fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let broker = Broker::start()?;
    broker.add_fault(&json!({
        "kind": "error",
        "api": "Produce",
        "error": "NOT_LEADER_OR_FOLLOWER",
        "on_call": 3,
    }))?;
    tokio::time::timeout(Duration::from_secs(30), produce(&broker.ready)).await??;
    let told = broker.faults()?;
    assert_eq!(told["faults"][0]["fired"], 1, "{told}");
    println!("the third produce was sent again");
    Ok(())
}

async fn produce(address: &str) -> Result<(), Failure> {
    let client = ClientBuilder::new(vec![address.to_owned()]).build().await?;
    client.controller_client()?.create_topic("orders", 1, 1, 5_000).await?;
    let orders = client.partition_client("orders", 0, UnknownTopicHandling::Retry).await?;
    for value in ["1", "2", "3"] {
        let record = Record {
            key: None,
            value: Some(value.into()),
            headers: BTreeMap::new(),
            timestamp: Utc::now(),
        };
        orders.produce(vec![record], Compression::NoCompression).await?;
    }
    Ok(())
}
