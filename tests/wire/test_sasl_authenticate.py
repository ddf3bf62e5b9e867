"""SaslAuthenticate (36): no client authenticates on a plaintext listener."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("SaslAuthenticate"))
def test_a_plaintext_listener_refuses_in_version(s: Session, version: int) -> None:
    assert s.call("SaslAuthenticate", version, AuthBytes=b"\0u\0p")["ErrorCode"] == 34
