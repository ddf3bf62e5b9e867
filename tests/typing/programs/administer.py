"""Topics and groups."""

import kafkalite as kl


def describe(servers: str) -> dict[str, int]:
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topic("orders", partitions=3, exist_ok=True)
        admin.alter_topic_config("orders", {"retention.ms": 60_000})
        lag = admin.group_lag("billing")
        print(sum(one.lag for one in lag.values()))
        ends = admin.list_offsets([("orders", 0)], "latest")
        print(ends[kl.TopicPartition("orders", 0)].offset)
        return {topic.name: len(topic.partitions) for topic in admin.list_topics()}
