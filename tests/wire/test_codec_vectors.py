"""A second voice on the wire: the codec that judges brokers, driven by Kafka's own definitions.

It shares no line with the Rust codec. Both read ``tests/golden/messages.txt`` and must write the
same bytes again; the Rust side does so in ``messages/tests/vectors.rs``. So a field at the wrong
place or version fails here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("kafka.protocol.schemas.resources", reason="needs kafka-python 3")

from tests.harness.wire import codec, schemas

GOLDEN = Path(__file__).parents[1] / "golden" / "messages.txt"
#: Messages that kafka-python 3.0 does not define, and why. It has every version of the others.
LACKING = {
    "BrokerHeartbeatRequest": "brokers send it; no client does",
    "BrokerHeartbeatResponse": "brokers send it; no client does",
    "GroupMetadataKey": "the coordinator keeps it; no client reads it",
    "GroupMetadataValue": "the coordinator keeps it; no client reads it",
    "OffsetCommitKey": "the coordinator keeps it; no client reads it",
    "OffsetCommitValue": "the coordinator keeps it; no client reads it",
    "UnregisterBrokerRequest": "its admin client has no such call",
    "UnregisterBrokerResponse": "its admin client has no such call",
    **{
        f"{api}{kind}": "its admin client has no such call"
        for api in (
            *(f"{verb}DelegationToken" for verb in ("Create", "Renew", "Expire", "Describe")),
            "AddRaftVoter",
            "RemoveRaftVoter",
        )
        for kind in ("Request", "Response")
    },
}


def golden() -> dict[tuple[str, int], list[bytes]]:
    """Messages by name (``FetchRequest``) and version."""
    found: dict[tuple[str, int], list[bytes]] = {}
    for line in GOLDEN.read_text().splitlines():
        name, _, version, kind, body = line.split(" ")
        name += "" if kind == "record" else kind.capitalize()
        found.setdefault((name, int(version)), []).append(bytes.fromhex(body))
    return found


def defined(name: str, version: int) -> schemas.Message | None:
    """Kafka's definition, if there is one here that has this version."""
    message = schemas.definitions().get(name)
    return message if message is not None and version in message.valid else None


def test_kafkas_definitions_read_every_golden_message_and_write_the_same_bytes() -> None:
    compared = 0
    for (name, version), bodies in golden().items():
        message = defined(name, version)
        for body in bodies if message is not None else ():
            assert message is not None
            value = codec.decode(message, version, body)
            assert codec.encode(message, version, value) == body, f"{name} v{version}"
            compared += 1
    assert compared > 1_000


def test_only_known_messages_are_without_a_definition() -> None:
    lacking = {name for name, version in golden() if defined(name, version) is None}
    # Where Kafka's own jar is at hand it has more.
    assert lacking <= set(LACKING)
