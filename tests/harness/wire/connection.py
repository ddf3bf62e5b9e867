"""One raw connection: requests by API name and version, responses as dicts."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from tests.harness.wire import codec, schemas


class Closed(ConnectionError):
    """The broker closed the connection instead of answering."""


def request_frame(
    api: str,
    version: int,
    body: dict[str, Any],
    correlation_id: int,
    client_id: str | None = "conformance",
) -> bytes:
    """Size, header and body of a request, as they go over the wire."""
    message = schemas.request(api)
    flexible = version in message.flexible
    raw_id = None if client_id is None else client_id.encode()
    header = struct.pack(">hhi", message.api_key, version, correlation_id)
    # The client id keeps its 2-byte length in header v2 as well (KIP-482).
    header += struct.pack(">h", -1 if raw_id is None else len(raw_id)) + (raw_id or b"")
    if flexible:
        header += b"\x00"
    payload = header + codec.encode(message, version, body)
    return struct.pack(">i", len(payload)) + payload


class Connection:
    """A TCP connection to a broker. Not for use by several threads."""

    def __init__(self, address: str, timeout: float = 20.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send_raw(self, data: bytes) -> None:
        """Bytes as they are."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed(str(error)) from error

    def receive_frame(self) -> bytes:
        """The payload of the next response frame."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError as error:
                raise Closed(str(error)) from error
            if not piece:
                raise Closed(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def send(self, api: str, version: int, body: dict[str, Any]) -> int:
        """Send a request; returns its correlation id."""
        self.correlation_id += 1
        self.send_raw(request_frame(api, version, body, self.correlation_id))
        return self.correlation_id

    def receive(self, api: str, version: int) -> dict[str, Any]:
        """Read the response to the oldest request that has none."""
        frame = self.receive_frame()
        message = schemas.response(api)
        at = 4
        # ApiVersions answers with header v0 in every version (KIP-511).
        if version in message.flexible and api != "ApiVersions":
            reader = codec.Reader(frame[4:], version, True)
            for _ in range(reader.varint()):
                reader.varint()
                reader.take(reader.varint())
            at += reader.at
        value = codec.decode(message, version, frame[at:])
        value["_correlation_id"] = struct.unpack(">i", frame[:4])[0]
        return value

    def call(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """One request and its response."""
        sent = self.send(api, version, body)
        answer = self.receive(api, version)
        if answer.pop("_correlation_id") != sent:
            raise codec.Unreadable(f"{api} v{version}: answer to another request than {sent}")
        return answer
