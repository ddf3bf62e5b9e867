"""SaslHandshake (17): nothing to shake hands about on a plaintext listener."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("SaslHandshake"))
def test_a_plaintext_listener_refuses_in_version(s: Session, version: int) -> None:
    answer = s.call("SaslHandshake", version, Mechanism="PLAIN")
    assert (answer["ErrorCode"], answer["Mechanisms"]) == (34, [])
