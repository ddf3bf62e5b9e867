"""How much each suite does: in full, and in the slice that fits into CI.

The slice of all suites together takes ten minutes on two idle cores.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Counts; every field can be set by ``--set-budget NAME=N``."""

    #: Runs of franz-go's own tests, one after the other.
    kgo_rounds: int = 3
    #: Records of franz-go's longest test, TestGroupETL.
    kgo_records: int = 50_000
    #: Seconds after which a round is taken to hang; franz-go then prints where.
    kgo_seconds: int = 580
    #: The same on three brokers with three replicas.
    kgo_replicated_rounds: int = 2
    kgo_replicated_records: int = 50_000
    #: kill -9 under load, and how long the load runs before each, in seconds.
    kills: int = 20
    seconds_between_kills: float = 3.0
    #: Of three brokers: kill -9 of the leader, restarts of one after the other, and seconds for
    #: which one is frozen.
    leader_kills: int = 20
    #: So many of them are of a leader that is the controller as well.
    leader_and_controller_kills: int = 5
    rolling_restarts: int = 3
    frozen_seconds: float = 30.0
    #: Partitions of the network, comma separated, and the seconds of each.
    partition_kinds: str = "two-way,mute,deaf,controller,bridge,flapping,rotating,ring"
    partition_seconds: float = 60.0
    #: Seeds of random programs of faults, comma separated, and the seconds of each.
    chaos_seeds: str = "1,2,3,4"
    chaos_seconds: float = 90.0
    #: Kills of a leader and of a group's broker, under each of the clients of `failover`.
    failovers: int = 4
    #: Size of the log that a start after kill -9 has to check, in GiB.
    unchecked_gib: float = 1.0
    #: Hostile frames, and the connections that send them.
    hostile_frames: int = 100_000
    hostile_connections: int = 2_000
    #: Connections that each claim 100 MiB and then say nothing.
    slow_connections: int = 1_000
    #: Seconds of each latency measurement.
    latency_seconds: float = 15.0
    #: Whether bounds on times are judged (1), or the times are only printed (0). The machines of CI
    #: are shared, and a bound that a neighbour can break says nothing about the broker.
    judge_times: int = 1
    #: Rows of the flights table (0: all), seconds the producer takes for them, kills meanwhile.
    flights_rows: int = 0
    flights_seconds: float = 30.0
    flights_kills: int = 3
    #: Codecs of the flights run, comma separated.
    flights_codecs: str = "none,gzip,snappy,lz4,zstd"
    #: Releases of Kafka that sarama speaks as, comma separated.
    sarama_releases: str = "2.1.0,2.4.0,3.6.0"
    #: sarama's functional tests, comma separated; empty: all but those that are excluded. Then the
    #: release of Kafka that they speak as, and the seconds that they may take.
    sarama_tests: str = ""
    sarama_release: str = "4.0.0"
    sarama_seconds: int = 800
    #: Records of each writer and codec that other clients read.
    interop_records: int = 20_000

    @classmethod
    def full(cls) -> Budget:
        """Everything the issue asks for."""
        return cls()

    @classmethod
    def slice(cls) -> Budget:
        """The bounded run of CI."""
        return cls(
            kgo_rounds=1,
            kgo_records=10_000,
            kgo_seconds=300,
            kgo_replicated_rounds=1,
            kgo_replicated_records=5_000,
            kills=5,
            seconds_between_kills=2.0,
            leader_kills=3,
            leader_and_controller_kills=1,
            rolling_restarts=1,
            frozen_seconds=5.0,
            partition_kinds="two-way,bridge",
            partition_seconds=8.0,
            chaos_seeds="1",
            chaos_seconds=15.0,
            failovers=1,
            unchecked_gib=0.25,
            hostile_frames=20_000,
            hostile_connections=500,
            slow_connections=300,
            latency_seconds=5.0,
            judge_times=0,
            flights_rows=60_000,
            flights_seconds=10.0,
            flights_kills=3,
            flights_codecs="none,zstd",
            sarama_releases="2.1.0",
            sarama_tests="TestFuncProducing,TestConsumerFetchFollowerFailover",
            sarama_seconds=60,
            interop_records=1_000,
        )

    def with_value(self, name: str, value: str) -> Budget:
        """A copy with one count changed; an unknown name is an error."""
        kinds = {field.name: type(getattr(self, field.name)) for field in dataclasses.fields(self)}
        if name not in kinds:
            raise ValueError(f"no count is called {name!r}; there are {', '.join(kinds)}")
        return dataclasses.replace(self, **{name: kinds[name](value)})
