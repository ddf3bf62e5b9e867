"""One script of requests, good and bad, answered by a real Apache Kafka and by us."""
