"""A broker inside this process."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

import kafkalite
from tests.unit.test_serve import api_versions_error


def test_it_serves_between_enter_and_exit() -> None:
    with kafkalite.Broker() as broker:
        assert api_versions_error(broker.bootstrap_servers) == 0
        assert broker.admin_url is None
    with pytest.raises(kafkalite.KafkaliteError, match="does not run"):
        _ = broker.bootstrap_servers


def test_two_brokers_live_in_one_process() -> None:
    with kafkalite.Broker() as one, kafkalite.Broker(admin_port=0) as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        assert other.admin_url is not None
        with urllib.request.urlopen(f"{other.admin_url}/health/ready", timeout=10) as answer:
            assert answer.status == 200


def test_it_starts_again_with_its_data(tmp_path: Path) -> None:
    broker = kafkalite.Broker(data_dir=tmp_path / "data")
    for _ in range(2):
        with broker:
            assert api_versions_error(broker.bootstrap_servers) == 0
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_wrong_key_is_an_exception_with_a_hint() -> None:
    broker = kafkalite.Broker(config={"log.segmnet.bytes": "1"})
    with pytest.raises(
        kafkalite.BrokerStartError, match=r"unknown key log\.segmnet\.bytes"
    ) as info:
        broker.start()
    assert info.value.hint == "did you mean log.segment.bytes?"
    broker.stop()


def test_a_locked_directory_is_an_exception(tmp_path: Path) -> None:
    with (
        kafkalite.Broker(data_dir=tmp_path),
        pytest.raises(kafkalite.BrokerStartError, match="another broker has locked it"),
    ):
        kafkalite.Broker(data_dir=tmp_path).start()
