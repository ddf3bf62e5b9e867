"""Plays the whole script against a broker and compares what was seen.

``python -m tests.conformance.differential.script --broker kafka --record`` writes the golden
answers; without ``--record`` it prints the table of differences to them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import tomllib
import uuid
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.conformance.differential.registry import CASES
from tests.harness import brokers, places
from tests.harness.session import ANSWER_WITHIN, Session
from tests.harness.wire.codec import Unreadable
from tests.harness.wire.connection import Closed

GOLDEN_FILE = places.GOLDEN / "differential.json"
DIFFERENCES_FILE = Path(__file__).with_name("differences.toml")

#: Fields that differ between any two brokers, or between two runs.
MASKED = {
    "ThrottleTimeMs", "TopicId", "ClusterId", "Host",
    "Port", "MemberId", "Leader", "ProducerId", "CoordinatorId", "ClusterAuthorizedOperations_",
    "LastTimestamp", "ResourceName", "GroupId", "ClientHost", "PartitionSize",
}  # fmt: skip
#: Texts for people: brokers may differ in whether there is one, and in its words.
TEXTS = {"ErrorMessage", "BatchIndexErrorMessage", "Documentation"}
#: Node ids: -1 says "none" and stays, any other number is "a node".
NODES = {"NodeId", "ControllerId", "LeaderId", "ReplicaNodes", "IsrNodes", "BrokerId"}

#: Stands where one of two observations has nothing.
ABSENT = "absent"

#: Differences by path: what Kafka says, what is said here.
Places = dict[str, tuple[Any, Any]]

#: Names that a session makes up.
_OWN_NAME = re.compile(r"\bd[0-9a-f]{6}-\d+-")

_FILES = (
    "configs",
    "produce",
    "idempotence",
    "fetch",
    "groups",
    "admin",
    "brokers",
    "odd",
    "twice",
    "chance",
    "telemetry",
    "wire",
)
for _module in _FILES:
    importlib.import_module(f"tests.conformance.differential.cases_{_module}")


def normalise(value: Any, name: str = "") -> Any:
    """What is compared: without ids, addresses and messages meant for people."""
    if name in TEXTS:
        return "*"
    if name in MASKED:
        return "null" if value is None else "*"
    if name in NODES and isinstance(value, int):
        return value if value < 0 else "node"
    if isinstance(value, dict):
        return {str(key): normalise(inner, key) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [normalise(inner, name) for inner in value]
    if isinstance(value, (bytes, uuid.UUID)):
        return str(value)
    if isinstance(value, str):
        return _OWN_NAME.sub("name", value)
    return value


def play(address: str, only: str = "", answer_within: float = ANSWER_WITHIN) -> dict[str, Any]:
    """Every case's observation by its name; a closed connection is an observation too."""
    seen: dict[str, Any] = {}
    run = uuid.uuid4().hex[:6]
    for number, (name, function) in enumerate(CASES.items()):
        if only not in name:
            continue
        session = Session(address, f"d{run}-{number}", answer_within)
        try:
            seen[name] = normalise(function(session))
        except Closed:
            seen[name] = "connection closed"
        except TimeoutError:
            seen[name] = "no answer"
        except (Unreadable, AssertionError, KeyError, IndexError) as error:
            seen[name] = f"no observation: {type(error).__name__}: {str(error)[:200]}"
        finally:
            session.close()
    # Through JSON, so that live and golden observations have the same types.
    return json.loads(json.dumps(seen))


@dataclass(frozen=True)
class Allowed:
    """One place of a case that may differ: what Kafka says there, what we say, and why."""

    kafka: Any
    here: Any
    reason: str


def allowed() -> dict[str, dict[str, Allowed]]:
    """The places that may differ, by case and path. Everything else in a case is compared."""
    table = tomllib.loads(DIFFERENCES_FILE.read_text())
    found: dict[str, dict[str, Allowed]] = {}
    for difference in table["difference"]:
        for row in difference["where"]:
            places_of = {
                path: Allowed(said["kafka"], said["here"], difference["reason"])
                for path, said in row["places"].items()
            }
            for name in row["cases"]:
                found.setdefault(name, {}).update(places_of)
    return found


def golden() -> dict[str, Any]:
    """The recorded observations of Apache Kafka."""
    return json.loads(GOLDEN_FILE.read_text())["cases"]


def write_golden(seen: dict[str, Any]) -> None:
    """Record the observations, with how they were captured."""
    places.GOLDEN.mkdir(parents=True, exist_ok=True)
    text = {
        "captured": {
            "broker": f"Apache Kafka {places.KAFKA_VERSION}, broker and controller in one JVM",
            "config": brokers.SUITE_CONFIG,
            "command": "python -m tests.conformance.differential.script --broker kafka --record",
        },
        "cases": seen,
    }
    GOLDEN_FILE.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")


def compare(reference: dict[str, Any], ours: dict[str, Any]) -> dict[str, Places]:
    """Cases whose observations differ, and where."""
    found = {name: places_of(reference[name], ours[name]) for name in ours if name in reference}
    return {name: where for name, where in found.items() if where}


def places_of(left: Any, right: Any, at: str = "") -> Places:
    """Where two observations differ: what Kafka says there, and what is said here."""
    if isinstance(left, dict) and isinstance(right, dict):
        inner = [(f".{key}", left, right, key) for key in sorted(set(left) | set(right))]
        pairs = [
            (to, one.get(key, ABSENT), other.get(key, ABSENT)) for to, one, other, key in inner
        ]
    elif isinstance(left, list) and isinstance(right, list) and (left and right):
        longest = zip_longest(left, right, fillvalue=ABSENT)
        pairs = [(f"[{place}]", one, other) for place, (one, other) in enumerate(longest)]
    else:
        return {} if left == right else {at or ".": (left, right)}
    found: Places = {}
    for to, one, other in pairs:
        found.update(places_of(one, other, at + to))
    return found


def unexplained(name: str, where: Places, may: dict[str, dict[str, Allowed]]) -> list[str]:
    """What of a case's differences has no reason, and which reasons no longer hold; one a line."""
    known = may.get(name, {})
    lines = []
    for path, (theirs, ours) in where.items():
        told = known.get(path)
        if told is None or (told.kafka, told.here) != (theirs, ours):
            lines.append(f"{path}: Kafka {theirs!r}, here {ours!r}")
    gone = [path for path in known if path not in where]
    return lines + [f"{path}: differs no longer; strike it from differences.toml" for path in gone]


def show(differences: dict[str, Places], may: dict[str, dict[str, Allowed]]) -> None:
    """Print the table: each difference, where, and its reason if it has one."""
    for name, where in differences.items():
        print(f"{'DIFFERS' if unexplained(name, where, may) else 'allowed'}  {name}")
        for path, (theirs, ours) in where.items():
            told = may.get(name, {}).get(path)
            why = f" because {told.reason}" if told else ""
            print(f"    {path}: Kafka {theirs!r}, here {ours!r}{why}"[:300])


def main(arguments: list[str] | None = None) -> int:
    """Record or compare. 0: no difference without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="kafkalite", help="kafkalite, kafka or HOST:PORT")
    parser.add_argument("--record", action="store_true", help="write the golden answers")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args(arguments)
    with brokers.serving(options.broker) as broker:
        seen = play(broker.bootstrap, options.only)
    unseen = {name: what for name, what in seen.items() if str(what).startswith("no observation")}
    if options.record:
        for name, what in unseen.items():
            print(f"{name}: {what}")
        write_golden(seen)
        print(f"{len(seen)} cases recorded")
        return 1 if unseen else 0
    differences, may = compare(golden(), seen), allowed()
    show(differences, may)
    left = [name for name in seen if unexplained(name, differences.get(name, {}), may)]
    print(f"{len(seen)} cases, {len(differences)} differ, {len(left)} without a reason")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
