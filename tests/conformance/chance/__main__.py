"""Random programs side by side: ``python -m tests.conformance.chance --seconds 60``.

Starts our broker and Apache Kafka, or takes them with ``--ours`` and ``--kafka HOST:PORT``. Plays
one program after the other on both, and prints the first different answer. Programs are raw
requests, or with ``--clients`` calls of confluent-kafka. Exit status 0: no difference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.conformance.chance import clients
from tests.conformance.chance.player import Player
from tests.conformance.chance.programs import Author
from tests.conformance.differential.script import places_of
from tests.harness import brokers
from tests.harness.patience import eventually
from tests.harness.wire import schemas
from tests.harness.wire.connection import Connection

#: Both brokers' keys: records of 2023 stay, and no topic is created by itself.
CONFIG = {"log.retention.ms": "-1", "auto.create.topics.enable": "false"}

#: Of no use by chance: they differ by design, or close connections over an enum.
NEVER = ("ApiVersions", "DescribeAcls", "CreateAcls", "DeleteAcls", "SaslHandshake",
         "SaslAuthenticate", "CreateDelegationToken", "RenewDelegationToken",
         "ExpireDelegationToken", "DescribeDelegationToken")  # fmt: skip

_PLACE = re.compile(r"\[\d+\]")

Versions = dict[str, tuple[int, int]]


def versions_of(address: str) -> Versions:
    """The APIs that a broker serves, and which versions."""
    with Connection(address) as one:
        listed = one.call("ApiVersions", 0, {})["ApiKeys"]
    requests = schemas.messages().items()
    names = {m.api_key: n.removesuffix("Request") for n, m in requests if n.endswith("Request")}
    return {names[row["ApiKey"]]: (row["MinVersion"], row["MaxVersion"]) for row in listed}


def shared_versions(ours: str, kafka: str, only: str) -> Versions:
    """What both serve and the schemas still know; ``only`` names APIs by commas."""
    theirs, shared = versions_of(kafka), {}
    for api, (low, high) in versions_of(ours).items():
        if api in theirs and api not in NEVER and (not only or api in only.split(",")):
            low = max(low, theirs[api][0], schemas.request(api).valid.low)
            shared[api] = (low, min(high, theirs[api][1]))
    return shared


def make_ready(address: str) -> None:
    """Wait for the topics that a broker makes for itself, and for producer ids."""
    with Connection(address) as one:
        asked = {"TransactionalId": None, "TransactionTimeoutMs": 1}

        def works() -> bool:
            ids = one.call("InitProducerId", 4, asked)["ErrorCode"]
            found = one.call("FindCoordinator", 2, {"Key": "g", "KeyType": 0})["ErrorCode"]
            offsets = one.call("OffsetFetch", 5, {"GroupId": "g", "Topics": []})["ErrorCode"]
            return not (ids or found or offsets)

        eventually(works)


def first_difference(steps: list[Any], players: list[Any], pool: ThreadPoolExecutor) -> str:
    """Play until the answers differ; where, and what both said. Empty: nowhere."""
    for number, step in enumerate(steps):
        # At the same moment: sessions and rebalances run out by the clock.
        saw = pool.map(lambda player, step=step: player.play(step), players)
        left, right = (json.loads(json.dumps(one)) for one in saw)
        if where := places_of(left, right):
            rows = [f"    {at}: Kafka {a!r}, here {b!r}"[:400] for at, (a, b) in where.items()]
            return "\n".join([f"step {number} {str(step)[:1_500]}", *rows[:6]])
    return ""


def kind_of(difference: str) -> str:
    """What several differences have in common."""
    first, *rows = difference.splitlines()
    return _PLACE.sub("[]", " ".join([*first.split()[2:3], *rows[:3]]))[:300]


def play(
    options: argparse.Namespace,
    written: Callable[[int], list[Any]],
    entered: Callable[[], list[Any]],
) -> Counter[str]:
    """Play programs until the time is over; how many differ in which way."""
    seen: Counter[str] = Counter()
    end, seed, steps = time.monotonic() + options.seconds, options.seed, 0
    with ThreadPoolExecutor(2) as pool:
        while time.monotonic() < end:
            players, program = entered(), written(seed)
            if difference := first_difference(program, players, pool):
                seen[kind_of(difference)] += 1
                if seen[kind_of(difference)] <= 2:
                    print(f"seed {seed} {difference}", flush=True)
            for player in players:
                player.close()
            seed, steps = seed + 1, steps + len(program)
    count = seed - options.seed
    print(f"{count} programs of together {steps} steps, {sum(seen.values())} of them differ")
    return seen


def main(arguments: list[str] | None = None) -> int:
    """Start what is to be compared, and play."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", default="kafkalite", help="kafkalite or HOST:PORT")
    parser.add_argument("--kafka", default="kafka", help="kafka or HOST:PORT")
    parser.add_argument("--clients", action="store_true", help="with confluent-kafka")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--length", type=int, default=40, help="steps of a program")
    parser.add_argument("--only", default="", help="APIs, by commas")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        kinds = (options.kafka, options.ours)
        both = [stack.enter_context(brokers.serving(kind, CONFIG)).bootstrap for kind in kinds]
        for address in both:
            make_ready(address)
        versions = shared_versions(both[1], both[0], options.only)

        def written(seed: int) -> list[Any]:
            if options.clients:
                return clients.program(seed, options.length)
            return Author(seed, versions).program(options.length)

        def entered() -> list[Any]:
            prefix, kind = f"c{uuid.uuid4().hex[:6]}-", clients.User if options.clients else Player
            return [kind(address, prefix) for address in both]

        seen = play(options, written, entered)
    print(json.dumps(seen.most_common(), indent=1))
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
