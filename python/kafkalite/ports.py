"""Ports of a broker: one is held while the broker is down, and asked whether it answers."""

from __future__ import annotations

import socket

#: An ApiVersions request, version 0: what every broker answers first.
_API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


def hold(host: str, port: int, held: list[socket.socket]) -> int:
    """Keep a port, a free one for 0: bound but not listening, beside the listener.

    While a broker is down its clients try to reach it from ports that the system chooses.
    The system could choose the broker's own port if it were not held.

    Returns:
        The port; as given, if it cannot be held.
    """
    if not 0 <= port < 1 << 16:
        # What the system would make of it is another port.
        return port
    try:
        name: str | bytes = host or "0.0.0.0"
        if isinstance(name, str) and name.isascii():
            # Python would import its tables of international names for a string.
            name = name.encode()
        family, kind, protocol, _, address = socket.getaddrinfo(
            name, port, type=socket.SOCK_STREAM
        )[0]
        reserved = socket.socket(family, kind, protocol)
    except OSError:
        # The broker will meet the same, and tells it better.
        return port
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(address)
    except OSError:
        reserved.close()
        return port
    held.append(reserved)
    return int(reserved.getsockname()[1])


def bracketed(host: str) -> str:
    """Return a host as addresses spell it: an IPv6 address stands in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def answers(address: str, timeout: float) -> bool:
    """Tell whether a broker answers at ``HOST:PORT`` within so many seconds."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as peer:
            peer.settimeout(timeout)
            peer.sendall(_API_VERSIONS)
            return len(peer.recv(4)) == 4
    except OSError:
        return False
