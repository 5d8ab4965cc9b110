"""A flow of Protobuf whose table grows, without a broker: writers' messages are framed, met and decoded."""

from __future__ import annotations

import base64
import struct

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tests.rows.avro_writers import Evolving
from tests.rows.protobuf_files import descriptor_set

from rivermouth.decoding.protobuf.protobuf_descriptor import message_class


def told(content):
    """The last file in a descriptor set, as a registry tells it; with a name of its own."""
    *_, file = FileDescriptorSet.FromString(content).file
    file.name = "default"
    return base64.b64encode(file.SerializeToString()).decode()


def orders(*fields, **more):
    """A descriptor set whose first message is ``shop.Order``; ``messages`` are the others."""
    return descriptor_set({"Order": list(fields), **more.pop("messages", {})}, **more)


class EvolvingOrders(Evolving):
    """A flow whose table begins with ``shop.Order`` of a descriptor set."""

    def form(self, declared):
        """The format of a table that begins with a version of a subject."""
        subject = f"declared-{len(self.registry.subjects())}"
        self.registry.register(subject, told(declared), kind="PROTOBUF")
        return {
            "type": "protobuf",
            "message": "shop.Order",
            "framing": "confluent",
            "subject": subject,
            "version": 1,
        }

    def id_of(self, writer):
        """The id of a writer's schema."""
        return self.registry.register("s", told(writer), kind="PROTOBUF")

    def sent(self, writer, content):
        """The bytes of an order of a writer, in Confluent's framing; the order as Protobuf has it in JSON."""
        body = content
        if not isinstance(content, bytes):
            message = message_class(writer, "shop.Order")()
            json_format.ParseDict(content, message)
            body = message.SerializeToString()
        return struct.pack(">bI", 0, self.id_of(writer)) + b"\0" + body
