"""The pytest plugin, run by pytest on small suites of its own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import kafkalite

pytest_plugins = ["pytester"]

ROUND_TRIP = """
    import pytest

    @pytest.mark.parametrize("value", [b"one", b"two"])
    def test_round_trip(kafkalite_topic, kafkalite_producer, kafkalite_consumer, value):
        kafkalite_producer.send(kafkalite_topic, value).result(timeout=30)
        assert kafkalite_consumer.poll(timeout=30).value == value
"""


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    """How many tests passed, failed and so on."""
    return {name: count for name, count in result.parseoutcomes().items() if name != "seconds"}


def test_it_imports_nothing_until_a_fixture_is_used(pytester: pytest.Pytester) -> None:
    program = (
        "import sys, kafkalite.pytest_plugin\n"
        "print(*(name for name in sys.modules if name.startswith('kafkalite')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["kafkalite", "kafkalite.pytest_plugin"]
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            names = {name for name in sys.modules if name.startswith("kafkalite")}
            assert names == {"kafkalite", "kafkalite.pytest_plugin"}
        """
    )
    assert outcomes(pytester.runpytest_subprocess()) == {"passed": 1}


def test_a_record_goes_round_with_the_fixtures_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ROUND_TRIP)
    assert outcomes(pytester.runpytest_subprocess("-W", "error")) == {"passed": 2}


def test_every_worker_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(ROUND_TRIP)
    assert outcomes(pytester.runpytest_subprocess("-n", "2")) == {"passed": 2}


def test_the_same_suite_runs_against_an_external_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        ROUND_TRIP
        + """
    def test_mine(kafkalite_broker):
        assert kafkalite_broker.bootstrap_servers == "{servers}"

    def test_that_needs_its_own(kafkalite_broker):
        kafkalite_broker.kill()
    """
    )
    with kafkalite.Broker() as broker:
        servers = broker.bootstrap_servers
        (file,) = pytester.path.glob("test_*.py")
        file.write_text(file.read_text().replace("{servers}", servers))
        result = pytester.runpytest_subprocess(f"--kafkalite-external={servers}", "-rs")
    assert outcomes(result) == {"passed": 3, "skipped": 1}
    result.stdout.fnmatch_lines([f"kafkalite: external broker {servers}", "*one that stays*"])


def test_a_marker_says_what_the_topic_is_like(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafkalite_topic(partitions=3, config={"cleanup.policy": "compact"})
        def test_topic(kafkalite_topic, kafkalite_admin):
            assert len(kafkalite_admin.describe_topic(kafkalite_topic).partitions) == 3
        """
    )
    assert outcomes(pytester.runpytest_subprocess("--strict-markers")) == {"passed": 1}


def test_topics_are_fresh_and_gone_afterwards(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        names = []

        def test_one(kafkalite_topic):
            names.append(kafkalite_topic)

        def test_deleted_by_the_test(kafkalite_topic, kafkalite_admin):
            names.append(kafkalite_topic)
            kafkalite_admin.delete_topic(kafkalite_topic)

        def test_all_gone(kafkalite_admin):
            assert len(set(names)) == 2
            assert not set(names) & set(kafkalite_admin.list_topics())
        """
    )
    assert outcomes(pytester.runpytest_subprocess("-W", "error")) == {"passed": 3}


def test_the_options_of_the_broker_can_be_overridden(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafkalite_broker_options():
            return {"topics": {"mine": 2}, "admin_port": 0}
        """
    )
    pytester.makepyfile(
        """
        def test_options(kafkalite_broker):
            assert kafkalite_broker.admin_url
        """
    )
    assert outcomes(pytester.runpytest_subprocess()) == {"passed": 1}


def test_a_failure_shows_what_the_broker_said_and_did(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_fails(kafkalite_broker):
            kafkalite_broker.wait_ready()
            assert False

        def test_fails_without():
            assert False
        """
    )
    result = pytester.runpytest_subprocess()
    assert outcomes(result) == {"failed": 2}
    text = result.stdout.str()
    assert text.count("kafkalite broker log, last lines") == 1
    assert re.search(r"INFO +kafkalite\.broker\S* serving listener=PLAINTEXT", text)
    assert text.count("kafkalite broker, last requests of this test") == 1
    assert re.search(r"\d+ ApiVersions v0 +\d+\.\d\d +\d+\.\d\d", text)


def test_a_failure_shows_why_its_clients_wait(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka import Producer

        def test_fails(kafkalite_broker, kafkalite_topic, kafkalite_faults):
            kafkalite_faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
            kafkalite_faults.drop_response(api="Produce", client_id="billing", times=1)
            servers = {"bootstrap.servers": kafkalite_broker.bootstrap_servers}
            producer = Producer({**servers, "client.id": "billing", "linger.ms": 0})
            with kafkalite_broker.record(api="Produce") as recording:
                producer.produce(kafkalite_topic, b"v")
                while not any(one.outcome == "open" for one in recording.requests):
                    producer.poll(0.01)
            assert False

        def test_fails_afterwards(kafkalite_broker):
            assert False
        """
    )
    result = pytester.runpytest_subprocess("--timeout=100")
    assert outcomes(result) == {"failed": 2}
    text = result.stdout.str()
    assert text.count("kafkalite broker, why clients wait") == 2
    first, second = text.split("___ test_fails_afterwards ___")
    where = r"billing 127\.0\.0\.1:\d+"
    assert re.search(where + r": fault 2 \(drop_response\) keeps the answer to its Produce", first)
    assert "What to do: remove fault 2." in first
    title = "kafkalite broker, requests of this test without success"
    assert first.count(title) == 1
    (failed, *_) = first.split(title)[1].split("why clients wait")
    wrong = r"NOT_LEADER_OR_FOLLOWER for \S+-0 \(fault 1\)  "
    assert re.search(r"Produce v\d+ of \S+-0: " + wrong + where, failed)
    assert re.search(r"Produce v\d+ of \S+-0: no answer yet \(fault 2\)  " + where, failed)
    # Requests of the test before are not shown again.
    assert title not in second


def test_a_failure_shows_the_fork_and_the_cluster_of_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka import Producer

        def meet(faults, servers):
            faults.blackhole("billing", api="Produce")
            keys = {"bootstrap.servers": servers, "client.id": "billing", "linger.ms": 0}
            producer = Producer(keys)
            producer.produce("orders", b"v")
            return producer

        def test_fork(kafkalite_fork):
            kafkalite_fork.clock.advance("8d")
            producer = meet(kafkalite_fork.faults, kafkalite_fork.bootstrap_servers)
            (fault,) = kafkalite_fork.faults
            for _ in range(6_000):
                if fault.fired:
                    break
                producer.poll(0.01)
            assert False

        def test_cluster(kafkalite_cluster):
            import kafkalite as kl
            servers = kafkalite_cluster.bootstrap_servers
            with kl.AdminClient(bootstrap_servers=servers) as admin:
                admin.create_topic("orders")
            leader = kafkalite_cluster.leader_of("orders", 0)
            producer = meet(leader.faults, servers)
            (fault,) = leader.faults
            for _ in range(6_000):
                if fault.fired:
                    break
                producer.poll(0.01)
            assert False
        """
    )
    result = pytester.runpytest_subprocess("--timeout=100")
    assert outcomes(result) == {"failed": 2}
    text = result.stdout.str()
    swallowed = r"billing 127\.0\.0\.1:\d+: fault 1 \(blackhole\) swallowed its Produce"
    fork, cluster = text.split("___ test_cluster ___")
    assert fork.count("kafkalite fork log, last lines") == 1
    assert re.search(r"fork, last requests of this test -+\n.*\n +\d+ ApiVersions v", fork)
    assert fork.count("kafkalite fork, requests of this test without success") == 1
    (_, waits) = fork.split("kafkalite fork, why clients wait")
    assert re.search(swallowed, waits)
    assert "kafkalite fork, its clock" in waits
    assert "8 days, 0:00:00 ahead of real time" in waits
    waits = cluster.split(", why clients of broker ", 1)[1]
    assert re.search(swallowed, waits)
    assert re.search(r"^idle, all their requests are answered: .*kafkalite", waits, re.MULTILINE)
    assert "its connection is idle" not in waits


def test_a_failure_shows_the_requests_of_its_own_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_passes(kafkalite_admin):
            kafkalite_admin.list_topics()
            kafkalite_admin.describe_cluster()

        def test_fails(kafkalite_broker):
            kafkalite_broker.wait_ready()
            assert False
        """
    )
    text = pytester.runpytest_subprocess().stdout.str()
    _, section = text.split("kafkalite broker, last requests of this test")
    apis = re.findall(r"^ +\d+ (\w+) v\d+", section, re.MULTILINE)
    assert apis == ["ApiVersions"]


def test_the_times_of_a_request_have_units_and_add_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_fails(kafkalite_topic, kafkalite_producer):
            for _ in range(30):
                kafkalite_producer.send(kafkalite_topic, b"v").result(timeout=30)
            assert False
        """
    )
    text = pytester.runpytest_subprocess().stdout.str()
    _, section = text.split("kafkalite broker, last requests of this test")
    assert re.search(r"the last 20 of \d+ requests", section)
    columns = ["ago", "api", "queue", "handler", "waited", "sending", "rest", "total"]
    (head,) = [line for line in section.splitlines() if line.split()[-1:] == ["client"]]
    assert head.replace(" ms", "").split() == [*columns, "client"]
    produced = [line.split() for line in section.splitlines() if " Produce v" in line]
    complete = [words[3:9] for words in produced if "-" not in words[3:9]]
    assert complete
    for *stages, total in complete:
        assert sum(map(float, stages)) == pytest.approx(float(total), abs=0.03)


def test_a_failed_expectation_points_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_fails(kafkalite_broker, kafkalite_topic):
            kafkalite_broker.expect(kafkalite_topic, 1, timeout=0)
        """
    )
    text = pytester.runpytest_subprocess().stdout.str()
    assert ">       kafkalite_broker.expect(kafkalite_topic, 1, timeout=0)" in text
    assert "expecting.py" not in text
    assert "broker.py" not in text


def test_a_record_goes_round_with_the_fixtures_of_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio

        def test_round_trip(
            kafkalite_topic,
            kafkalite_async_producer,
            kafkalite_async_consumer,
            kafkalite_async_admin,
        ):
            async def main():
                await kafkalite_async_producer.send(kafkalite_topic, b"v")
                record = await kafkalite_async_consumer.poll(timeout=30)
                assert record.value == b"v"
                names = [topic.name for topic in await kafkalite_async_admin.list_topics()]
                assert kafkalite_topic in names

            asyncio.run(main())

        def test_not_used(kafkalite_async_producer, kafkalite_async_consumer):
            pass

        def test_closed(kafkalite_async_producer, kafkalite_async_consumer):
            async def main():
                await kafkalite_async_consumer.close()
                await kafkalite_async_producer.close()

            asyncio.run(main())
        """
    )
    assert outcomes(pytester.runpytest_subprocess("-W", "error")) == {"passed": 3}


def test_of_a_broker_in_a_child_a_failure_shows_what_it_said_and_did(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
        import kafkalite.broker_process
        import pytest

        # A machine that stands still for two seconds would show none.
        kafkalite.broker_process._ASKING_S = 30.0

        @pytest.fixture(scope="session")
        def kafkalite_broker_options():
            return {"in_process": False}
        """
    )
    pytester.makepyfile(
        """
        def test_fails(kafkalite_broker):
            kafkalite_broker.wait_ready()
            assert False
        """
    )
    result = pytester.runpytest_subprocess()
    assert outcomes(result) == {"failed": 1}
    text = result.stdout.str()
    assert text.count("kafkalite broker log, last lines") == 1
    assert '"message":"serving"' in text
    assert text.count("kafkalite broker, last requests of this test") == 1
    assert re.search(r"\d+ ApiVersions v0 +\d+\.\d\d", text)


def test_a_cluster_is_there_and_one_elsewhere_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import kafkalite as kl

        def test_three(kafkalite_cluster):
            servers = kafkalite_cluster.bootstrap_servers
            with kl.AdminClient(bootstrap_servers=servers) as admin:
                assert admin.create_topic("t", exist_ok=True)

        def test_kill(kafkalite_cluster):
            kafkalite_cluster.kill_leader("t", 0).start()
        """
    )
    assert outcomes(pytester.runpytest_subprocess("-W", "error")) == {"passed": 2}
    with kafkalite.Cluster() as running:
        external = f"--kafkalite-external={running.bootstrap_servers}"
        elsewhere = pytester.runpytest_subprocess("-W", "error", external)
    assert outcomes(elsewhere) == {"passed": 1, "skipped": 1}


def test_faults_end_with_their_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_one(kafkalite_faults):
            kafkalite_faults.blackhole()

        def test_two(kafkalite_topic, kafkalite_producer, kafkalite_faults):
            assert len(kafkalite_faults) == 0
            kafkalite_producer.send(kafkalite_topic, b"x").result(timeout=30)
        """
    )
    assert outcomes(pytester.runpytest_subprocess("-p", "no:cacheprovider")) == {"passed": 2}


def test_faults_skip_with_an_external_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(kafkalite_faults): pass")
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--kafkalite-external=127.0.0.1:1"
    )
    assert outcomes(result) == {"skipped": 1}


FORKS = """
    import pytest

    @pytest.fixture(scope="session")
    def kafkalite_seed():
        def seed(broker):
            import kafkalite
            with kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send("orders", b"seeded").result(timeout=30)
        return seed

    @pytest.mark.parametrize("value", [b"one", b"two"])
    def test_each_begins_with_the_seed(kafkalite_fork, value):
        import kafkalite
        with kafkalite.Producer(bootstrap_servers=kafkalite_fork.bootstrap_servers) as producer:
            producer.send("orders", value).result(timeout=30)
        records = kafkalite_fork.expect("orders", 2, timeout=30)
        assert [record.value for record in records] == [b"seeded", value]
"""


def test_each_test_has_a_fork_of_the_seeded_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FORKS)
    assert outcomes(pytester.runpytest_subprocess("-W", "error")) == {"passed": 2}


def test_each_worker_seeds_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(FORKS)
    assert outcomes(pytester.runpytest_subprocess("-n", "2")) == {"passed": 2}
