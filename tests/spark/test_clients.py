"""A worker's clients go from task to task, each to one at a time, and never to a forked child."""

from __future__ import annotations

import os
import threading

import pytest

from kafkalite_spark.clients import Clients


class Client:
    """Knows what it was made of, and whether it was closed."""

    def __init__(self, config: dict[str, str]) -> None:
        self.config = config
        self.closed = False
        self.ended = threading.Event()

    def close(self, timeout: float = 5.0) -> None:
        self.closed = True
        self.ended.set()


@pytest.fixture
def clients() -> Clients[Client]:
    return Clients(Client)


def test_the_next_task_has_the_client_of_the_last(clients: Clients[Client]) -> None:
    with clients.lent({"a": "1", "b": "2"}) as first:
        pass
    with clients.lent({"b": "2", "a": "1"}) as second:
        assert second is first


def test_two_tasks_at_once_have_two_clients(clients: Clients[Client]) -> None:
    with clients.lent({"a": "1"}) as first, clients.lent({"a": "1"}) as second:
        assert second is not first


def test_another_configuration_is_another_client(clients: Clients[Client]) -> None:
    with clients.lent({"a": "1"}):
        pass
    with clients.lent({"a": "2"}) as other:
        assert other.config == {"a": "2"}


@pytest.mark.parametrize("end", [ValueError, GeneratorExit, KeyboardInterrupt])
def test_the_client_of_a_task_that_was_not_finished_is_closed_and_not_lent_again(
    clients: Clients[Client], end: type[BaseException]
) -> None:
    with pytest.raises(end), clients.lent({"a": "1"}) as first:
        raise end
    assert first.closed
    with clients.lent({"a": "1"}) as second:
        assert second is not first


def test_a_forked_child_has_none_of_its_parents(
    clients: Clients[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    with clients.lent({"a": "1"}) as first:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with clients.lent({"a": "1"}) as second:
        assert (second is first, first.closed) == (False, False)


def test_a_client_that_no_task_has_had_for_a_while_is_closed() -> None:
    # A worker kept the clients of every configuration that it ever had.
    now = 0.0
    clients = Clients(Client, idle_s=300, clock=lambda: now)
    with clients.lent({"a": "1"}) as first, clients.lent({"a": "2"}) as other:
        pass
    now = 200.0
    with clients.lent({"a": "2"}) as again:
        assert again is other
    now = 299.0
    assert (clients.close_idle(), first.closed) == (1.0, False)
    now = 300.0
    assert (clients.close_idle(), first.closed, other.closed) == (200.0, True, False)
    now = 500.0
    assert (clients.close_idle(), other.closed) == (None, True)
    with clients.lent({"a": "1"}) as new:
        assert new is not first


def test_idle_clients_are_closed_though_no_task_comes_any_more() -> None:
    clients = Clients(Client, idle_s=0.02)
    for _ in range(2):
        with clients.lent({"a": "1"}) as client:
            pass
        assert client.ended.wait(30), "the idle client is not closed"
