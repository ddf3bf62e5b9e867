"""Records what Spark's own connector does with each option, on Apache Kafka: `make spark-options`.

Needs Spark's jars (`make spark-jars`) and Kafka's (`tests/conformance/prerequisites.py`).
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyspark

from tests.harness import brokers, places
from tests.spark.live.conftest import start_session
from tests.spark.live.option_runner import Asker, prepare
from tests.spark.option_cases import CASES

GOLDEN = places.GOLDEN / "spark_options.json"


def steady(found: dict[str, Any]) -> dict[str, Any]:
    """Return it without what the next run says otherwise: places, ids, long texts."""
    if "says" not in found:
        return found
    words = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", found["says"].split("\n")[0])
    words = re.sub(r"out-kafka-\d+", "out", words)
    words = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27,}|@[0-9a-f]{6,8}\b", "ID", words)
    return {"error": found["error"], "says": words[:160]}


def main() -> None:
    """Ask everything, and write it down."""
    with brokers.serving("kafka") as kafka:
        prepare(kafka.bootstrap)
        spark = start_session()
        asker = Asker(spark, kafka.bootstrap, "kafka")
        answers = {}
        for case in CASES:
            answers[case.key] = steady(asker.ask(case))
            print(case.key, json.dumps(answers[case.key]), flush=True)
        spark.stop()
    told = {
        "spark": pyspark.__version__,
        "kafka": places.KAFKA_VERSION,
        "recorded by": "make spark-options",
        "answers": answers,
    }
    GOLDEN.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
