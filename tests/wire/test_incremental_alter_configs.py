"""IncrementalAlterConfigs (44): set, delete, append, subtract."""

from __future__ import annotations

import pytest

from tests.conformance.differential.cases_admin import CHANGES
from tests.harness.requests import alter, described
from tests.harness.session import Session
from tests.harness.wire.versions import edges

SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.mark.parametrize("version", edges("IncrementalAlterConfigs"))
def test_one_key_is_set_and_the_others_stay_in_version(s: Session, version: int) -> None:
    topic = s.topic(retention_ms="1000")
    configs = [{"Name": "segment.ms", "ConfigOperation": SET, "Value": "60000"}]
    asked = [{"ResourceType": 2, "ResourceName": topic, "Configs": configs}]
    answer = s.call("IncrementalAlterConfigs", version, Resources=asked)
    assert answer["Responses"][0]["ErrorCode"] == 0
    found = described(s, topic, ["retention.ms", "segment.ms"])[1]
    assert [one["Value"] for one in found.values()] == ["1000", "60000"]


@pytest.mark.parametrize(
    ("change", "error"),
    [("set", 0), ("append to a list", 0), ("subtract what is not there", 0),
     ("delete an unset key", 0), ("append to a number", 40), ("the same key twice", 42),
     ("set to null", 42), ("unknown operation", 42), ("one good and one bad", 40)],
)  # fmt: skip
def test_a_change_is_accepted_or_refused(s: Session, change: str, error: int) -> None:
    assert alter(s, s.topic(), CHANGES[change]) == error


@pytest.mark.parametrize(
    ("operation", "policy"), [(APPEND, "delete,compact"), (SUBTRACT, "delete"), (DELETE, "delete")]
)
def test_a_list_grows_and_shrinks(s: Session, operation: int, policy: str) -> None:
    topic = s.topic()
    alter(s, topic, [("cleanup.policy", operation, "compact")])
    assert described(s, topic, ["cleanup.policy"])[1]["cleanup.policy"]["Value"] == policy


def test_a_change_that_is_only_validated_is_not_made(s: Session) -> None:
    topic = s.topic()
    assert alter(s, topic, [("retention.ms", SET, "1000")], ValidateOnly=True) == 0
    assert described(s, topic, ["retention.ms"])[1]["retention.ms"]["Value"] == "604800000"


@pytest.mark.parametrize(
    ("kind", "name", "error"), [(2, "no-such-topic", 3), (2, "", 42), (4, "99", 42), (5, "x", 42)]
)
def test_an_unknown_resource_is_refused(s: Session, kind: int, name: str, error: int) -> None:
    assert alter(s, name, [("retention.ms", SET, "1000")], kind=kind) == error


def test_a_smaller_max_message_bytes_holds_at_once(s: Session) -> None:
    topic = s.topic()
    s.fill(topic, 1)
    alter(s, topic, [("max.message.bytes", SET, "10")])
    assert s.produce(topic, b"\x00" * 12)["ErrorCode"] != 0
