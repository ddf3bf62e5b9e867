"""The messages of client metrics, which the kafka-python wheel lacks.

Source: KIP-714; ``tests/golden/messages.txt`` has bytes of them that Kafka itself judged.
"""

from __future__ import annotations

from typing import Any


def _message(kind: str, name: str, key: int, **fields: str) -> dict[str, Any]:
    listed = [{"name": field, "type": of, "versions": "0+"} for field, of in fields.items()]
    versions = {"validVersions": "0", "flexibleVersions": "0+"}
    return {"type": kind, "name": name, "apiKey": key, **versions, "fields": listed}


#: As Kafka's own JSON files say it.
TELEMETRY: list[dict[str, Any]] = [
    _message("request", "GetTelemetrySubscriptionsRequest", 71, ClientInstanceId="uuid"),
    _message(
        "response", "GetTelemetrySubscriptionsResponse", 71,
        ThrottleTimeMs="int32", ErrorCode="int16", ClientInstanceId="uuid", SubscriptionId="int32",
        AcceptedCompressionTypes="[]int8", PushIntervalMs="int32", TelemetryMaxBytes="int32",
        DeltaTemporality="bool", RequestedMetrics="[]string",
    ),
    _message(
        "request", "PushTelemetryRequest", 72,
        ClientInstanceId="uuid", SubscriptionId="int32", Terminating="bool",
        CompressionType="int8", Metrics="bytes",
    ),
    _message("response", "PushTelemetryResponse", 72, ThrottleTimeMs="int32", ErrorCode="int16"),
]  # fmt: skip
