// A producer of kafkajs that survives NOT_LEADER_OR_FOLLOWER on the third produce.
//
//   npm install kafkajs && node faults.mjs
//
// It starts `kafkalite dev`, adds a fault over HTTP, and ends the broker.

import { spawn } from "node:child_process";
import assert from "node:assert/strict";
import { Kafka, logLevel } from "kafkajs";

const broker = spawn("kafkalite", ["dev", "--quiet", "--listen", "127.0.0.1:0"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const addresses = await new Promise((resolve, reject) => {
  let text = "";
  broker.once("error", reject);
  broker.once("exit", () => reject(new Error("the broker ended")));
  broker.stdout.on("data", (more) => {
    text += more;
    const ready = text.match(/^ready: (.+)$/m);
    const admin = text.match(/^admin: (.+)$/m);
    if (ready && admin) resolve({ ready: ready[1], admin: admin[1] });
  });
});

async function ask(method, path, body) {
  const answer = await fetch(`${addresses.admin}/api/v1${path}`, {
    method,
    body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.json();
}

try {
  const kafka = new Kafka({ brokers: [addresses.ready], logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: "orders" }] });
  await admin.disconnect();
  const fault = await ask("POST", "/faults", {
    kind: "error",
    api: "Produce",
    error: "NOT_LEADER_OR_FOLLOWER",
    on_call: 3,
  });
  const producer = kafka.producer();
  await producer.connect();
  for (const value of ["1", "2", "3"]) {
    await producer.send({ topic: "orders", messages: [{ value }] });
  }
  await producer.disconnect();
  const { fired } = await ask("GET", `/faults/${fault.id}`);
  assert.equal(fired, 1);
  console.log("the third produce was sent again");
} finally {
  broker.kill("SIGTERM");
}
