"""A broker with the methods of testcontainers' ``KafkaContainer``: only the import changes.

::

    from kafkalite.testcontainers import KafkaContainer  # was: from testcontainers.kafka

    with KafkaContainer() as kafka:
        connect(kafka.get_bootstrap_server())

Source:
    ``testcontainers.kafka.KafkaContainer`` of testcontainers-python 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .broker import Broker

if TYPE_CHECKING:
    from typing import Self

__all__ = ["KafkaContainer"]


class KafkaContainer:
    """A real broker in this process, without Docker; a context manager.

    Args:
        image: Not used: there is no container.
        port: Not used: the system chooses the port, see ``get_bootstrap_server``.
        options: Not used: what testcontainers gives to Docker.
    """

    def __init__(
        self, image: str = "confluentinc/cp-kafka:7.6.0", port: int = 9093, **options: Any
    ) -> None:
        """Prepare a broker; ``start()`` or ``with`` starts it."""
        self.image: str = image
        self.port: int = port
        self._config: dict[str, str] = {}
        self._broker: Broker | None = None

    def with_env(self, key: str, value: object) -> Self:
        """Set a key of the broker, as the images of Kafka take it.

        Args:
            key: ``KAFKA_NUM_PARTITIONS`` is ``num.partitions``. Other variables, and the keys that
                say where a container listens or how a cluster is made, change nothing.
            value: The value.
        """
        name = key.removeprefix("KAFKA_").lower().replace("_", ".")
        if key.startswith("KAFKA_") and not name.startswith(_OF_CONTAINERS):
            self._config[name] = str(value)
        return self

    def with_envs(self, **variables: object) -> Self:
        """Set several keys, see ``with_env``."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_kraft(self) -> Self:
        """Change nothing: there is no ZooKeeper to do without."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """Change nothing: the broker chooses the id of its cluster."""
        return self

    def with_name(self, name: str) -> Self:
        """Change nothing: there is no container to name."""
        return self

    def with_exposed_ports(self, *ports: int) -> Self:
        """Change nothing: the port is one of this machine already."""
        return self

    def start(self, timeout: float = 30) -> Self:
        """Start the broker; it serves when this returns.

        Args:
            timeout: Seconds that the broker may take to answer.

        Raises:
            BrokerStartError: A key or a value that the broker does not have.
        """
        if self._broker is None:
            broker = Broker(config=self._config)
            broker.start()
            self._broker = broker
        self._broker.wait_ready(timeout)
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop the broker, and remove its records.

        Args:
            force: Not used.
            delete_volume: Not used: the records are in a temporary directory.
        """
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    @property
    def broker(self) -> Broker:
        """The broker, for what a container does not have: ``expect()``, ``restart()``.

        Raises:
            IllegalStateError: The broker does not run.
        """
        if self._broker is None:
            from .errors import IllegalStateError

            text = "ILLEGAL_STATE: the broker does not run"
            raise IllegalStateError(text, hint="start() it, or use it in `with`.")
        return self._broker

    def get_bootstrap_server(self) -> str:
        """Return ``HOST:PORT`` to give to clients."""
        return self.broker.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Return the host of the broker."""
        return self.get_bootstrap_server().rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """Return the port of the broker, whichever port of the container was meant."""
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


#: Keys of a container's network, of its cluster and of its programs: a broker in this process has
#: its own.
_OF_CONTAINERS = (
    "advertised.",
    "broker.id",
    "controller.",
    "heap.",
    "inter.broker.",
    "jmx.",
    "listener",
    "log4j",
    "node.id",
    "opts",
    "process.roles",
    "zookeeper.",
)
