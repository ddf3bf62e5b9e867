"""FindCoordinator (10): the one broker coordinates every group."""

from __future__ import annotations

import pytest

from tests.harness.session import Session


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_group_is_coordinated_by_this_broker_in_version(s: Session, version: int) -> None:
    answer = s.call("FindCoordinator", version, Key=s.name())
    assert answer["ErrorCode"] == 0
    assert f"{answer['Host']}:{answer['Port']}" == s.address


@pytest.mark.parametrize("version", [4, 5, 6])
def test_several_keys_are_asked_at_once_in_version(s: Session, version: int) -> None:
    keys = [s.name(), s.name()]
    answer = s.call("FindCoordinator", version, KeyType=0, CoordinatorKeys=keys)
    assert [(one["Key"], one["ErrorCode"]) for one in answer["Coordinators"]] == [
        (key, 0) for key in keys
    ]


@pytest.mark.parametrize("kind", [9, -1])
def test_an_unknown_kind_of_key_is_refused(s: Session, kind: int) -> None:
    answer = s.call("FindCoordinator", 4, KeyType=kind, CoordinatorKeys=["a"])
    assert [one["ErrorCode"] for one in answer["Coordinators"]] == [42]
