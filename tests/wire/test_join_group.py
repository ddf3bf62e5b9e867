"""JoinGroup (11): who may join, and the answer that a member gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.requests import join, member_of
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("JoinGroup"))
def test_the_first_member_leads_in_version(s: Session, version: int) -> None:
    group = s.name()
    first = join(s, group, version=version)
    # From version 4 on a member gets its id first, and joins with it (KIP-394).
    assert first["ErrorCode"] == (79 if version >= 4 else 0)
    joined = join(s, group, first["MemberId"], version=version) if version >= 4 else first
    assert (joined["ErrorCode"], joined["GenerationId"]) == (0, 1)
    assert joined["Leader"] == joined["MemberId"] == joined["Members"][0]["MemberId"]


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        ({"group": ""}, 24),
        ({"member": "nobody"}, 25),
        ({"timeout_ms": 1}, 26),
        ({"timeout_ms": 10_000_000}, 26),
        ({"protocols": ()}, 23),
        ({"kind": ""}, 23),
    ],
)
def test_an_odd_member_is_refused(s: Session, odd: dict[str, Any], error: int) -> None:
    assert join(s, **{"group": s.name(), **odd})["ErrorCode"] == error


@pytest.mark.parametrize(
    ("odd", "error"),
    [({"protocols": ("roundrobin",)}, 23), ({"kind": "connect"}, 23), ({"member": "nobody"}, 25)],
)
def test_a_member_that_does_not_fit_is_refused(s: Session, odd: dict[str, Any], error: int) -> None:
    group = s.name()
    member_of(s, group)
    assert join(s, group, **odd)["ErrorCode"] == error


def test_a_static_member_that_comes_back_keeps_its_generation(s: Session) -> None:
    group = s.name()
    member, generation = member_of(s, group, instance="one")
    back = join(s, group, instance="one")
    assert (back["ErrorCode"], back["GenerationId"]) == (0, generation)
    assert back["MemberId"] != member
    assert join(s, group, member, instance="one")["ErrorCode"] == 82
