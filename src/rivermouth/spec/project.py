"""A project: its flows, and what they share."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rivermouth.spec.catalog import Catalog
from rivermouth.spec.flows.flow import Flow
from rivermouth.spec.maintenance import Maintenance
from rivermouth.spec.pipeline import Pipeline
from rivermouth.spec.places import Places
from rivermouth.spec.values import ConfigModel, Constructed, HeapSize


class KafkaCluster(ConfigModel):
    """Where the brokers are and how to talk to them.

    Attributes:
        bootstrap_servers: ``host:port``, several are separated by commas.
        preset: A service whose options are known: ``confluent-cloud``, ``event-hubs``, ``msk-iam``, ``msk-scram``,
            ``redpanda`` or ``strimzi``.
        username: Who logs in, by PLAIN or SCRAM; with ``event-hubs`` and ``msk-iam`` none is needed.
        password: The password that goes with it; write a reference, as ``${KAFKA_PASSWORD}``.
        options: Kafka client options as in Kafka's own documentation, without a ``kafka.`` prefix; they win over those
            of the preset.
    """

    bootstrap_servers: str = "localhost:9092"
    preset: Literal["confluent-cloud", "event-hubs", "msk-iam", "msk-scram", "redpanda", "strimzi"] | None = None
    username: str | None = None
    password: str | None = Field(default=None, repr=False)
    options: dict[str, str | int | bool] = {}


class SchemaRegistry(ConfigModel):
    """The schema registry; it has the API of Confluent's.

    Attributes:
        url: ``https://host:port``, and a path, if there is one; without a login. No redirect is followed.
        username: Who logs in, by HTTP's basic authentication.
        password: The password that goes with it; write a reference, as ``${REGISTRY_PASSWORD}``.
        ca_file: Certificates in PEM that the registry is trusted by, instead of those that Java has.
        timeout_s: How long a request may take, retries included; then the flow stops.
        max_bytes: An answer that is longer stops the flow.
    """

    url: str = Field(min_length=1)
    username: str | None = None
    password: str | None = Field(default=None, repr=False)
    ca_file: str | None = None
    timeout_s: float = Field(default=30.0, gt=0, le=3600)
    max_bytes: int = Field(default=1 << 20, gt=0, le=1 << 30)


class SparkSettings(ConfigModel):
    """The Spark session of a run.

    Attributes:
        master: Spark's master URL.
        driver_memory: Heap of the driver, in Spark's notation: ``2g``, ``512m``.
        conf: Spark options; they win over rivermouth's own settings.
    """

    master: str = "local[*]"
    driver_memory: HeapSize = "2g"
    conf: dict[str, str | int | float | bool] = {}


class ProjectSpec(Constructed):
    """A project: a lake, a Kafka cluster, and flows and pipelines by name.

    Attributes:
        name: Names the project in messages and metrics.
        lake: Root of the lake: a folder, or a URI such as ``s3a://bucket/prefix``.
        kafka: The brokers.
        schema_registry: Where schemas are that records name by a number; for formats with ``framing: confluent``.
        spark: The Spark session of a run.
        places: Templates of the places where things lie.
        catalog: Where the tables are found by name; by their places alone, if there is none.
        maintenance: When the files of the tables are put in order, for flows that do not say it themselves.
        flows: The flows by name.
        pipelines: The declarative pipelines by name.
    """

    name: str = "rivermouth"
    lake: str
    kafka: KafkaCluster = KafkaCluster()
    schema_registry: SchemaRegistry | None = None
    spark: SparkSettings = SparkSettings()
    places: Places = Places()
    catalog: Catalog | None = None
    maintenance: Maintenance | None = None
    flows: dict[str, Flow] = {}
    pipelines: dict[str, Pipeline] = {}

    @model_validator(mode="after")
    def _columns_of_one_table(self) -> Self:
        if self.maintenance and self.maintenance.optimize and self.maintenance.optimize.zorder:
            msg = "maintenance.optimize.zorder names columns of one table: write maintenance in the flow"
            raise ValueError(msg)
        return self

    @model_validator(mode="before")
    @classmethod
    def _name_flows(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        named = {
            key: {
                name: {"name": str(name), **each} if isinstance(each, dict) else each
                for name, each in value[key].items()
            }
            for key in ("flows", "pipelines")
            if isinstance(value.get(key), dict)
        }
        return {**value, **named}
