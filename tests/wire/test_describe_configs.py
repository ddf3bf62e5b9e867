"""DescribeConfigs (32): every key, where its value comes from, and what it means."""

from __future__ import annotations

import pytest

from tests.harness.requests import described
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DescribeConfigs"))
def test_an_override_tells_its_source_in_version(s: Session, version: int) -> None:
    asked = [{"ResourceType": 2, "ResourceName": s.topic(retention_ms="1000")}]
    asked[0]["ConfigurationKeys"] = ["retention.ms", "cleanup.policy"]
    (one,) = s.call("DescribeConfigs", version, Resources=asked)["Results"]
    found = {each["Name"]: (each["Value"], each["ConfigSource"]) for each in one["Configs"]}
    assert found == {"retention.ms": ("1000", 1), "cleanup.policy": ("delete", 5)}


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (2, "no-such-topic", 3),
        (2, "a b", 17),
        (2, "", 17),
        (4, "99", 42),
        (4, "one", 42),
        (5, "x", 42),
    ],
)
def test_an_unknown_resource_is_refused(s: Session, kind: int, name: str, error: int) -> None:
    assert described(s, name, [], kind=kind)[0] == error


def test_a_key_that_does_not_exist_is_left_out(s: Session) -> None:
    assert list(described(s, s.topic(), ["no.such.key", "segment.ms"])[1]) == ["segment.ms"]


def test_synonyms_are_listed_on_request(s: Session) -> None:
    topic = s.topic(retention_ms="1000")
    found = described(s, topic, ["retention.ms"], IncludeSynonyms=True)[1]["retention.ms"]
    assert found["Synonyms"][0]["Name"] == "retention.ms"
