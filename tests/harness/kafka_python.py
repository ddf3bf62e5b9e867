"""kafka-python, which reads its messages by a function that Python 3.11 deprecates."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

__all__ = ["DEPRECATED", "KafkaConsumer", "KafkaProducer", "TopicPartition"]

#: What tests of it let pass.
DEPRECATED = "ignore:read_text is deprecated:DeprecationWarning"
