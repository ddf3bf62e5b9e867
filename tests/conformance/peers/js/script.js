// script plays the script of the conformance suites with kafkajs, and prints what it saw: one JSON
// object a line, {"step": NAME, "saw": ANYTHING}. Nothing in it depends on the run.
//
//   node script.js HOST:PORT PREFIX
"use strict";

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");

const [broker, prefix] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: "script",
  brokers: [broker],
  logLevel: logLevel.NOTHING,
  // A second is its default, and a busy machine stands still for longer.
  connectionTimeout: 20_000,
  retry: { initialRetryTime: 50, retries: 8 },
});
const admin = kafka.admin();
const topic = `${prefix}-p`;
const group = `${prefix}-g`;

const say = (step, saw) => console.log(JSON.stringify({ step, saw }));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What an error is called by the protocol, or else by its class.
const told = (error) => {
  const first = error.errors ? error.errors[0] : error;
  return first.type || (first.cause && first.cause.type) || first.name;
};

// A step and its result, or what its error is called.
const tried = async (step, call) => {
  try {
    say(step, (await call()) ?? null);
  } catch (error) {
    say(step, told(error));
  }
};

const topics = async () => {
  const two = { topic, numPartitions: 2, replicationFactor: 1 };
  await tried("create", () => admin.createTopics({ topics: [two], waitForLeaders: true }));
  await tried("create again", () => admin.createTopics({ topics: [two] }));
  const wrong = { configEntries: [{ name: "retention.ms", value: "x" }] };
  await tried("create with a bad config", () =>
    admin.createTopics({ topics: [{ ...two, topic: `${prefix}-w`, ...wrong }] }));
  await tried("create with a bad name", () =>
    admin.createTopics({ topics: [{ ...two, topic: "a b" }] }));
  await tried("only to validate", () =>
    admin.createTopics({ topics: [{ ...two, topic: `${prefix}-v` }], validateOnly: true }));
  await tried("fewer partitions", () =>
    admin.createPartitions({ topicPartitions: [{ topic, count: 1 }] }));
  await pause(300);
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  say("metadata", metadata.topics.map((one) => one.partitions.length));
};

const configs = async () => {
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const alter = (name, value) => () =>
    admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name, value }] }] });
  await tried("alter", async () => (await alter("retention.ms", "12345")()).resources[0].errorCode);
  await tried("alter badly", alter("retention.ms", "x"));
  await pause(300);
  const configNames = ["retention.ms", "cleanup.policy"];
  const described = await admin.describeConfigs({ resources: [{ ...resource, configNames }] });
  const entries = described.resources[0].configEntries;
  say("describe configs", Object.fromEntries(entries.map((one) =>
    [one.configName, [one.configValue, one.readOnly, one.configSource]])));
};

const produce = async () => {
  const send = async (step, options, sending) => {
    const producer = kafka.producer(options);
    await producer.connect();
    const messages = Array.from({ length: 10 }, (_, i) =>
      ({ key: `key${i}`, value: `${step} ${i}`, headers: { h: `${i}` } }));
    await tried(step, async () => {
      const sent = await producer.send({ topic, acks: -1, messages, ...sending });
      return sent.map((one) => [one.partition, one.baseOffset, one.errorCode])
        .sort((one, other) => one[0] - other[0]);
    });
    await producer.disconnect();
  };
  await send("produce", {}, {});
  await send("produce gzip", {}, { compression: CompressionTypes.GZIP });
  await send("produce idempotent", { idempotent: true, maxInFlightRequests: 1 }, {});
  const impatient = { retry: { retries: 0 } };
  await send("produce too much", impatient, { messages: [{ value: Buffer.alloc(2_000_000) }] });
  await send("produce to a bad name", impatient, { topic: "a b" });
};

// Reads in a group of two until all is read and each member owns one partition.
const groupOfTwo = async () => {
  const total = (await admin.fetchTopicOffsets(topic))
    .reduce((sum, one) => sum + Number(one.high), 0);
  const seen = new Set();
  const owned = [0, 0];
  const members = [0, 1].map(() => kafka.consumer({
    groupId: group, sessionTimeout: 20_000, heartbeatInterval: 500, maxWaitTimeInMs: 100,
  }));
  for (const [i, member] of members.entries()) {
    await member.connect();
    member.on(member.events.GROUP_JOIN, ({ payload }) => {
      owned[i] = (payload.memberAssignment[topic] || []).length;
    });
    await member.subscribe({ topics: [topic], fromBeginning: true });
    await member.run({ eachMessage: async ({ partition, message }) => {
      seen.add(`${partition}:${message.offset}:${message.value}`);
    } });
  }
  const until = Date.now() + 30_000;
  while ((owned.join() !== "1,1" || seen.size < total) && Date.now() < until) {
    await pause(50);
  }
  say("group of two", [owned, seen.size === total]);
  const { groups } = await admin.describeGroups([group]);
  say("describe the group", [groups[0].state, groups[0].protocol, groups[0].members.length]);
  await Promise.all(members.map((member) => member.disconnect()));
  return [...seen].sort();
};

const offsets = async () => {
  const listed = (await admin.listGroups()).groups.filter((one) => one.groupId === group);
  say("list groups", listed.map((one) => one.protocolType));
  const fetched = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  const sorted = fetched[0].partitions.sort((one, other) => one.partition - other.partition);
  say("committed", sorted.map((one) => one.offset));
  await tried("reset", () => admin.resetOffsets({ groupId: group, topic, earliest: true }));
  await tried("at a time", async () => {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, 1);
    return found.map((one) => one.offset).sort();
  });
  await tried("delete the group", async () =>
    (await admin.deleteGroups([group])).map((one) => one.errorCode));
  await tried("delete it again", () => admin.deleteGroups([group]));
};

const cluster = async () => {
  say("cluster", (await admin.describeCluster()).brokers.length);
  const any = { resourceType: 1, resourcePatternType: 1, operation: 1, permissionType: 1 };
  await tried("acls", () => admin.describeAcls(any));
  await tried("reassignments", () => admin.listPartitionReassignments({ topics: null }));
  const records = (offset) => () =>
    admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset }] });
  await tried("delete records", records("2"));
  await tried("delete too many", records("1000000"));
};

const main = async () => {
  await admin.connect();
  await topics();
  await configs();
  await produce();
  say("consume", await groupOfTwo());
  await offsets();
  await cluster();
  await tried("delete the topic", () => admin.deleteTopics({ topics: [topic] }));
  await tried("delete an unknown one", () => admin.deleteTopics({ topics: [`${prefix}-none`] }));
  await admin.disconnect();
};

main().catch((error) => {
  console.error("kafkajs:", error);
  process.exit(1);
});
