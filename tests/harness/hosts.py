"""Hosts of a cluster on one machine: network namespaces on a switch, with links that nft cuts.

Host 0 is the clients', and holds the switch; brokers have the hosts from 1 on. A link has a
direction, and is cut where it ends: packets are lost without a word, as on a broken network. The
addresses (RFC 5737) are seen on these hosts only. All of it needs root.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.harness.cluster import Cluster, Member

#: The number that Linux has for network namespaces in ``setns``.
_CLONE_NEWNET = 0x40000000
_OWN_NAMESPACE = Path("/proc/thread-self/ns/net")
_PORT = 9092

#: From one host to another.
Link = tuple[int, int]


def address(number: int) -> str:
    """The address of a host."""
    return f"192.0.2.{100 + number}"


def is_missing() -> str:
    """What is not there to make hosts; empty if everything is."""
    if os.geteuid() != 0:
        return "root, who may make network namespaces"
    tools = (("ip", "iproute2"), ("nft", "nftables"))
    gone = [package for tool, package in tools if shutil.which(tool) is None]
    return ", ".join(gone)


def _run(*words: str, stdin: str = "") -> None:
    done = subprocess.run(
        words, input=stdin, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


class Hosts:
    """Hosts 0 to ``count``."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._cut: set[Link] = set()

    def name(self, number: int) -> str:
        """The namespace of a host; two runs on one machine have different ones."""
        return f"kafkalite-{os.getpid()}-{number}"

    def open(self) -> None:
        """Make them, and join them by the switch."""
        clients = self.name(0)
        for number in range(self.count + 1):
            _run("ip", "netns", "add", self.name(number))
            _run("ip", "-n", self.name(number), "link", "set", "lo", "up")
        _run("ip", "-n", clients, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", clients, "address", "add", f"{address(0)}/24", "dev", "switch")
        _run("ip", "-n", clients, "link", "set", "switch", "up")
        for number in range(1, self.count + 1):
            own, port = self.name(number), f"port{number}"
            there = ("peer", "name", "eth0", "netns", own)
            _run("ip", "-n", clients, "link", "add", port, "type", "veth", *there)
            _run("ip", "-n", clients, "link", "set", port, "master", "switch", "up")
            _run("ip", "-n", own, "address", "add", f"{address(number)}/24", "dev", "eth0")
            _run("ip", "-n", own, "link", "set", "eth0", "up")

    def close(self) -> None:
        """Remove what was made of them; links and rules go with the namespaces."""
        for number in range(self.count + 1):
            words = ("ip", "netns", "delete", self.name(number))
            subprocess.run(words, capture_output=True, check=False, timeout=120)

    def cut(self, links: Iterable[Link]) -> None:
        """Lose every packet on these links, and on no other."""
        wanted = set(links)
        for number in range(1, self.count + 1):
            before = {one for one in self._cut if one[1] == number}
            after = {one for one in wanted if one[1] == number}
            if before != after:
                self._lose_from(sorted(one[0] for one in after), number)
        self._cut = wanted

    def heal(self) -> None:
        """Let all packets through."""
        self.cut(())

    def _lose_from(self, others: list[int], number: int) -> None:
        # The first line makes the table where there is none, so that the second finds one.
        rules = ["table inet cut", "delete table inet cut"]
        if others:
            lost = ", ".join(address(one) for one in others)
            rules += ["table inet cut {", "chain lost {", "type filter hook input priority 0", "}"]
            rules.append("}")
            rules.append(f"add rule inet cut lost ip saddr {{ {lost} }} drop")
        _run("ip", "netns", "exec", self.name(number), "nft", "-f", "-", stdin="\n".join(rules))

    @contextmanager
    def entered(self, number: int = 0) -> Iterator[None]:
        """Be on a host: this thread, and the threads and processes that it starts."""
        libc = ctypes.CDLL(None, use_errno=True)

        def enter(descriptor: int) -> None:
            if libc.setns(descriptor, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

        with (
            _OWN_NAMESPACE.open() as before,
            Path(f"/run/netns/{self.name(number)}").open() as there,
        ):
            enter(there.fileno())
            try:
                yield
            finally:
                enter(before.fileno())


class Hosted(Member):
    """A broker on a host of its own."""

    def __init__(
        self, data_dir: Path, config: Mapping[str, str], join: str | None, hosts: Hosts, number: int
    ) -> None:
        super().__init__(data_dir, config, join)
        self.namespace = hosts.name(number)
        self.host, self.port = address(number), _PORT

    def command(self) -> list[str]:
        """``ip netns exec`` becomes the broker: the process id stays."""
        return ["ip", "netns", "exec", self.namespace, *super().command()]


class HostedCluster(Cluster):
    """Brokers on hosts of their own. Clients are where the test is: on host 0."""

    def __init__(self, folder: Path, hosts: Hosts, config: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, config, hosts.count)
        self.hosts = hosts

    def make(self, data_dir: Path, join: str | None) -> Member:
        """The next broker, on the next host."""
        return Hosted(data_dir, self.config, join, self.hosts, len(self.members) + 1)


@contextmanager
def running(
    folder: Path, config: Mapping[str, str] | None = None, count: int = 3
) -> Iterator[HostedCluster]:
    """A cluster on hosts for the length of a block, which is on the clients' host."""
    hosts = Hosts(count)
    try:
        hosts.open()
        with hosts.entered():
            cluster = HostedCluster(folder, hosts, config)
            try:
                cluster.start()
                yield cluster
            finally:
                cluster.close()
    finally:
        hosts.close()
