"""InitProducerId (22): ids for idempotent producers."""

from __future__ import annotations

import pytest

from tests.conformance.differential.cases_idempotence import producer
from tests.conformance.differential.session import Session
from tests.wire.versions import edges


@pytest.mark.parametrize("version", edges("InitProducerId"))
def test_every_call_gets_an_id_of_its_own_in_version(s: Session, version: int) -> None:
    first, second = producer(s, version), producer(s, version)
    assert first[0] != second[0]
    assert first[1] == second[1] == 0


def test_two_connections_get_different_ids(s: Session) -> None:
    body = {"TransactionalId": None, "TransactionTimeoutMs": 1000}
    other = s.another().call("InitProducerId", 4, body)
    assert other["ProducerId"] != producer(s)[0]


def test_an_empty_transactional_id_is_refused(s: Session) -> None:
    answer = s.call("InitProducerId", 4, TransactionalId="", TransactionTimeoutMs=1000)
    assert answer["ErrorCode"] == 42


def test_an_id_that_the_client_brings_is_replaced(s: Session) -> None:
    pid, epoch = producer(s)
    body = {"TransactionTimeoutMs": 1000, "ProducerId": pid, "ProducerEpoch": epoch}
    answer = s.call("InitProducerId", 4, TransactionalId=None, **body)
    assert (answer["ErrorCode"], answer["ProducerEpoch"]) == (0, 0)
