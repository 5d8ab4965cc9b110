"""A broker that is frozen for a while."""

import pytest

from rivermouth.errors import BrokerUnreachable
from rivermouth.ports.kafka.kafka_cluster import Kafka


def assert_unreachable_while_frozen(broker, bootstrap_servers, options):
    """The broker is unreachable while it is frozen, and answers again afterwards."""
    with Kafka(bootstrap_servers, options, timeout_s=1) as kafka:
        before = kafka.cluster_id()
        broker.pause()
        try:
            with pytest.raises(BrokerUnreachable):
                _ask_for_ever(kafka)
        finally:
            broker.resume()
        assert kafka.cluster_id() == before


def _ask_for_ever(kafka):
    """A frozen broker may answer once more: the signal takes its time to reach every thread."""
    while True:
        kafka.cluster_id()
