"""What three brokers cost: the leader's CPU with three replicas and with one, and idle partitions.

    python benches/cluster_costs.py                # prints the figures; 1 where a bound is missed

The leader's CPU is of the broker that leads the one partition, for each GB of 1 KiB records with
``acks=all``. Followers are processes of their own. The first round of each is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

from benches.beside_kafka import VALUE_BYTES, claim_memory, cpu_seconds, produce  # noqa: E402
from tests.harness import cluster  # noqa: E402
from tests.harness.cluster import Cluster  # noqa: E402

#: The bounds: a leader's CPU against that of a partition with one replica; cores of idle brokers.
MOST_TIMES, MOST_CORES = 2.0, 0.05
LEADER = 2
SETTLE_S = 10.0


def leader_cpu(running: Cluster, replicas: list[int], records: int) -> tuple[float, float]:
    """CPU seconds of the leader and of all three for each GB that is written."""
    topic = f"load-{len(replicas)}-{time.monotonic_ns()}"
    admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas])])[topic].result(30)
    running.wait_in_sync(topic, replicas=len(replicas))
    size = 2 * len(replicas) * records * VALUE_BYTES
    claim_memory(running.members[LEADER].data_dir, size)
    pids = {number: member.pid for number, member in running.members.items()}
    before = {number: cpu_seconds(pid) for number, pid in pids.items()}
    produce(running.bootstrap, topic, records)
    # The followers have it too: all in sync have a record that is acknowledged.
    used = {number: cpu_seconds(pid) - before[number] for number, pid in pids.items()}
    admin.delete_topics([topic])[topic].result(30)
    gigabytes = records * VALUE_BYTES / 1e9
    return used[LEADER] / gigabytes, sum(used.values()) / gigabytes


def idle_cores(running: Cluster, partitions: int, seconds: float) -> float:
    """Cores that all brokers together use with so many idle partitions of three replicas."""
    admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("idle", partitions, 3)])["idle"].result(60)
    running.wait_in_sync("idle", seconds=120)
    time.sleep(SETTLE_S)
    pids = [member.pid for member in running.members.values()]
    before, began = sum(map(cpu_seconds, pids)), time.monotonic()
    time.sleep(seconds)
    return (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - began)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description="What three brokers cost.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=500_000, help="records of a round")
    parser.add_argument("--partitions", type=int, default=1_000, help="idle partitions")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of idleness")
    options = parser.parse_args()
    found: dict[int, list[tuple[float, float]]] = {1: [], 3: []}
    with (
        tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as folder,
        cluster.running(Path(folder)) as running,
    ):
        for number in range(options.rounds + 1):
            for replicas in ([LEADER], [LEADER, 3, 1]):
                costs = leader_cpu(running, replicas, options.records)
                if number > 0:
                    found[len(replicas)].append(costs)
        idle = idle_cores(running, options.partitions, options.seconds)
    alone, leading = (statistics.median(one for one, _ in found[count]) for count in (1, 3))
    everyone = statistics.median(one for _, one in found[3])
    print(f"leader, one replica: {alone:.3f} CPU s/GB")
    print(f"leader, three replicas: {leading:.3f} CPU s/GB, {leading / alone:.2f} times")
    print(f"three brokers, three replicas: {everyone:.3f} CPU s/GB")
    print(f"{options.partitions} idle partitions on three brokers: {idle * 100:.1f} % of a core")
    print(json.dumps({str(count): costs for count, costs in found.items()}))
    return int(leading > MOST_TIMES * alone or idle > MOST_CORES)


if __name__ == "__main__":
    sys.exit(main())
