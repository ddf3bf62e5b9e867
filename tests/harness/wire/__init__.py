"""A small codec of our own for raw requests: Kafka's JSON schemas are read at run time."""
