"""AlterConfigs (33): the old way, which replaces all overrides of a resource."""

from __future__ import annotations

import pytest

from tests.harness.requests import described
from tests.harness.session import Session
from tests.harness.wire.versions import edges


def replace(s: Session, name: str, key: str, value: str | None, version: int = 2) -> int:
    """The error of setting one key of a topic, and thereby unsetting all others."""
    configs = [{"Name": key, "Value": value}]
    asked = [{"ResourceType": 2, "ResourceName": name, "Configs": configs}]
    return int(s.call("AlterConfigs", version, Resources=asked)["Responses"][0]["ErrorCode"])


@pytest.mark.parametrize("version", edges("AlterConfigs"))
def test_all_overrides_are_replaced_in_version(s: Session, version: int) -> None:
    topic = s.topic(retention_ms="1000")
    assert replace(s, topic, "segment.ms", "60000", version) == 0
    found = described(s, topic, ["retention.ms", "segment.ms"])[1]
    assert {name: one["Value"] for name, one in found.items()} == {
        "retention.ms": "604800000",
        "segment.ms": "60000",
    }


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [("segment.ms", "abc", 40), ("no.such.key", "1", 40), ("segment.ms", None, 42)],
)
def test_a_wrong_config_is_refused(s: Session, key: str, value: str | None, error: int) -> None:
    assert replace(s, s.topic(), key, value) == error


def test_an_unknown_topic_is_refused(s: Session) -> None:
    assert replace(s, s.name(), "segment.ms", "60000") == 3
