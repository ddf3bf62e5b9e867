"""Random programs, played on our broker and on Apache Kafka side by side."""
