"""Three brokers beside three brokers of Apache Kafka: acks=all, latency, failover, memory.

    python benches/three_brokers.py                  # prints a table
    python benches/three_brokers.py --rounds 1 --only failover

Both clusters run on this machine, one after the other in each round, with three replicas,
``min.insync.replicas=2`` and their own defaults otherwise. Each Apache Kafka is broker and
controller in one JVM with a heap of 512 MiB and the flags of its own start script. The client is
Kafka's own ``ProducerPerformance``, with ``acks=all``; for the time of a failover it is
librdkafka. The first load of each cluster is not counted.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

from benches.beside_kafka import cpu_seconds  # noqa: E402
from tests.harness import brokers, cluster, places  # noqa: E402
from tests.harness.load import LoadProducer  # noqa: E402
from tests.harness.patience import eventually  # noqa: E402

HEAP = "512M"
JVM_FLAGS = ["-server", f"-Xmx{HEAP}", f"-Xms{HEAP}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
JVM_FLAGS += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]
CLUSTER_ID = "a2Fma2FsaXRlLXBlZXJzMw"
#: Of Kafka's internal topics, and of what a cluster of three needs besides.
INTERNAL = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
START_S = 120.0
SETTLE_S = 5.0
FAILOVER_S = 120.0
RECORD_BYTES = 1_024
#: Records per second of the failover load: what a client sends while nothing is wrong.
STEADY = 200

Figures = dict[str, list[float]]


class KafkaOfThree(brokers.ApacheKafka):
    """One of three Apache Kafkas, each broker and controller."""

    def __init__(self, data_dir: Path, number: int, voters: str, ports: tuple[int, int]) -> None:
        """``voters`` as Kafka has them; ``ports`` of the broker and of the controller."""
        super().__init__(data_dir)
        self.number, self.voters = number, voters
        self.port, self.controller_port = ports

    def prepare(self) -> None:
        """Write ``server.properties`` beside the data and format the directory once."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        mine, other = f"PLAINTEXT://{self.bootstrap}", f"CONTROLLER://{self.host}"
        lines = {
            **INTERNAL,
            "process.roles": "broker,controller",
            "node.id": str(self.number),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": self.voters,
            "listeners": f"{mine},{other}:{self.controller_port}",
            "advertised.listeners": mine,
            "log.dirs": str(self.data_dir),
        }
        properties = self._properties_path()
        properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        if not (self.data_dir / "meta.properties").exists():
            tool = brokers.java_command("kafka.tools.StorageTool")
            command = [*tool, "format", "-t", CLUSTER_ID, "-c", str(properties)]
            subprocess.run(command, check=True, capture_output=True)

    def command(self) -> list[str]:
        """One JVM with Kafka's flags."""
        launcher, *_ = brokers.java_command("kafka.Kafka")
        log = f"-Dlog4j2.configurationFile={places.PEERS / 'log4j2.xml'}"
        jars = ["-cp", f"{places.JARS}/*", "kafka.Kafka"]
        return [launcher, *JVM_FLAGS, log, *jars, str(self._properties_path())]


class Three:
    """Three running brokers of one kind."""

    def __init__(self, members: Mapping[int, brokers.Broker]) -> None:
        """They are running."""
        self.members = members
        self.bootstrap = ",".join(one.bootstrap for one in members.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int = 3) -> None:
        """A topic of three replicas, its leaders spread over the brokers."""
        replicas = [[2, 3, 1], [3, 1, 2], [1, 2, 3]][:partitions]
        safe = {"min.insync.replicas": "2"}
        new = NewTopic(topic, partitions, replica_assignment=replicas, config=safe)
        self.admin.create_topics([new])[topic].result(60)
        self.wait_in_sync(topic)

    def delete(self, topic: str) -> None:
        """Remove a topic and its records."""
        self.admin.delete_topics([topic])[topic].result(60)

    def leader(self, topic: str) -> int:
        """The leader of partition 0."""
        return int(self.admin.list_topics(topic, 30).topics[topic].partitions[0].leader)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all replicas are in sync."""

        def is_whole() -> bool:
            parts = list(self.admin.list_topics(topic, 30).topics[topic].partitions.values())
            return bool(parts) and all(len(one.isrs) == 3 for one in parts)

        eventually(is_whole, START_S)

    def resident_mib(self) -> float:
        """Resident memory of the three processes together."""
        return sum(one.rss_bytes() for one in self.members.values()) / 2**20

    def cpu(self) -> float:
        """CPU seconds of the three processes together."""
        return sum(cpu_seconds(one.pid) for one in self.members.values())


@contextmanager
def three_kafkas(folder: Path) -> Iterator[Three]:
    """Three of Apache Kafka; they start together, since one alone has no quorum."""
    ports = [(brokers.free_port(), brokers.free_port()) for _ in range(3)]
    voters = ",".join(f"{at}@127.0.0.1:{own[1]}" for at, own in enumerate(ports, 1))
    members = {
        at: KafkaOfThree(folder / f"kafka-{at}", at, voters, own) for at, own in enumerate(ports, 1)
    }
    try:
        for one in members.values():
            one.launch()
        for one in members.values():
            one.wait_ready(START_S)
        yield Three(members)
    finally:
        for one in members.values():
            one.kill()


@contextmanager
def three_of_ours(folder: Path) -> Iterator[Three]:
    """Three of ours."""
    with cluster.running(folder) as running:
        yield Three(running.members)


KINDS: dict[str, Callable[[Path], AbstractContextManager[Three]]] = {
    "kafka": three_kafkas,
    "kafkalite": three_of_ours,
}

_ENDED = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.,]+) records/sec .*?"
    r"(?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th"
)


def perform(three: Three, topic: str, records: int, per_second: int) -> dict[str, float]:
    """Run Kafka's ProducerPerformance; records per second and milliseconds of the percentiles."""
    done = subprocess.run(
        [
            *brokers.java_command("org.apache.kafka.tools.ProducerPerformance", heap="512m"),
            "--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_BYTES),
            "--throughput", str(per_second), "--bootstrap-server", three.bootstrap,
            "--command-property", "acks=all",
        ],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    found = _ENDED.search(done.stdout.splitlines()[-1] if done.stdout else "")
    if found is None:
        raise RuntimeError(f"ProducerPerformance: {done.stdout[-500:]}{done.stderr[-1500:]}")
    values = {name: float(text.replace(",", "")) for name, text in found.groupdict().items()}
    if values.pop("records") != records:
        raise RuntimeError(f"records are missing: {done.stdout[-500:]}")
    return values


def loads(three: Three, options: argparse.Namespace) -> dict[str, float]:
    """Throughput, CPU seconds per GB, and the latency at each rate."""
    three.create("load")
    perform(three, "load", options.records, -1)
    figures = {}
    used = three.cpu()
    figures["MB/s"] = perform(three, "load", options.records, -1)["rate"] * RECORD_BYTES / 1e6
    figures["CPU s/GB"] = (three.cpu() - used) / (options.records * RECORD_BYTES / 1e9)
    for rate in options.rates:
        found = perform(three, "load", rate * options.seconds, rate)
        for name in ("p50", "p99"):
            figures[f"{name} ms at {rate}/s"] = found[name]
    figures["MiB after load"] = three.resident_mib()
    three.delete("load")
    return figures


def failover(three: Three, kills: int) -> list[float]:
    """Seconds from kill -9 of a leader to the first answer for a record that was sent after it."""
    three.create("failover", partitions=1)
    load = LoadProducer("load", three.bootstrap, "failover", per_second=STEADY, size=100)
    load.start()
    eventually(lambda: load.newest > STEADY)
    found = []
    for _ in range(kills):
        number = three.leader("failover")
        began, mark = time.monotonic(), load.sent
        three.members[number].kill()
        while load.newest < mark:
            if time.monotonic() - began > FAILOVER_S:
                raise RuntimeError(f"no answer {FAILOVER_S:.0f} s after broker {number} was killed")
            time.sleep(0.002)
        found.append(time.monotonic() - began)
        three.members[number].start(START_S)
        three.wait_in_sync("failover")
    load.finish()
    three.delete("failover")
    return found


def figures_of(kind: str, options: argparse.Namespace) -> Figures:
    """All figures of one cluster of a kind."""
    with (
        tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as folder,
        KINDS[kind](Path(folder)) as three,
    ):
        time.sleep(SETTLE_S)
        found = {"MiB when idle": [three.resident_mib()]}
        if options.only in (None, "load"):
            found |= {name: [one] for name, one in loads(three, options).items()}
        if options.only in (None, "failover"):
            found["failover s"] = failover(three, options.kills)
    return found


def measure(options: argparse.Namespace) -> dict[str, Figures]:
    """All figures of both kinds."""
    figures: dict[str, Figures] = {kind: {} for kind in KINDS}
    for _ in range(options.rounds):
        for kind in KINDS:
            new = figures_of(kind, options)
            print(kind, json.dumps(new), file=sys.stderr, flush=True)
            for name, values in new.items():
                figures[kind].setdefault(name, []).extend(values)
    return figures


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Three brokers beside three of Apache Kafka.")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--records", type=int, default=400_000, help="records of a full load")
    parser.add_argument("--rates", type=int, nargs="*", default=[1_000, 5_000, 20_000])
    parser.add_argument("--seconds", type=int, default=20, help="seconds of each rate")
    parser.add_argument("--kills", type=int, default=5, help="leaders killed in a round")
    parser.add_argument("--only", choices=["load", "failover"])
    options = parser.parse_args()
    figures = measure(options)
    print("| what | Apache Kafka | kafkalite | worst of each |\n|---|---|---|---|")
    for name in figures["kafka"]:
        theirs, ours = (figures[kind][name] for kind in KINDS)
        middle = f"{statistics.median(theirs):.2f} | {statistics.median(ours):.2f}"
        print(f"| {name} | {middle} | {max(theirs):.2f}, {max(ours):.2f} |")
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
