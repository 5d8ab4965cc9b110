package com.acme;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.generic.GenericData;
import org.apache.avro.util.Utf8;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Deserializer;

import com.fasterxml.jackson.databind.ObjectMapper;

/** Makes what the value names. */
public class OrderDeserializer implements Deserializer<Object> {
    private Object secret;

    @Override
    public void configure(Map<String, ?> config, boolean isKey) {
        if (isKey || config.containsKey("refused")) {
            throw new IllegalArgumentException("not with " + config.get("refused"));
        }
        secret = config.get("secret");
    }

    @Override
    public Object deserialize(String topic, byte[] value) {
        throw new IllegalStateException("the method with headers is the one that is called");
    }

    @Override
    public Object deserialize(String topic, Headers headers, byte[] value) {
        String said = new String(value, StandardCharsets.UTF_8);
        Arrays.fill(value, (byte) 0);
        switch (said) {
            case "null":
                return null;
            case "bean":
                return new Order();
            case "avro":
                return avro();
            case "topic":
                return Map.of("s", topic + headers);
            case "throw":
                throw new IllegalStateException("no such order, said " + secret, new RuntimeException("cause"));
            case "deep":
                return deserialize(topic, headers, said.getBytes(StandardCharsets.UTF_8));
            case "lost":
                return new Missing();
            case "text":
                return "alone";
            case "empty":
                return Map.of();
            default:
                return said.startsWith("{") ? json(said) : Collections.singletonMap("x", value(said));
        }
    }

    private static Object json(String said) {
        try {
            return new ObjectMapper().readTree(said);
        } catch (Exception error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static Object value(String said) {
        String rest = said.substring(said.indexOf(' ') + 1);
        switch (said.substring(0, said.indexOf(' '))) {
            case "long":
                return Long.valueOf(rest);
            case "int":
                return Integer.valueOf(rest);
            case "big":
                return new BigInteger(rest);
            case "decimal":
                return new BigDecimal(rest);
            case "double":
                return Double.valueOf(rest);
            case "float":
                return Float.valueOf(rest);
            case "instant":
                return Instant.parse(rest);
            case "date":
                return LocalDate.parse(rest);
            case "local":
                return LocalDateTime.parse(rest);
            case "bool":
                return Boolean.valueOf(rest);
            case "bytes":
                return ByteBuffer.wrap(rest.getBytes(StandardCharsets.UTF_8));
            case "ints":
                return new int[] {1, 2};
            case "half":
                return "\ud800";
            case "utf8":
                return new Utf8(new byte[] {(byte) 0xff});
            case "twice":
                Map<Object, Object> twice = new HashMap<>();
                twice.put("a", 1);
                twice.put(new Utf8("a"), 2);
                return twice;
            default:
                return rest;
        }
    }

    private static Object avro() {
        Schema instant = LogicalTypes.timestampMillis().addToSchema(Schema.create(Schema.Type.LONG));
        Schema price = LogicalTypes.decimal(6, 2).addToSchema(Schema.create(Schema.Type.BYTES));
        Schema schema = SchemaBuilder.record("r").fields()
                .name("id").type().longType().noDefault()
                .name("at").type(instant).noDefault()
                .name("amount").type(Schema.createUnion(Schema.create(Schema.Type.NULL), price)).noDefault()
                .name("tags").type().array().items().stringType().noDefault()
                .endRecord();
        GenericData.Record row = new GenericData.Record(schema);
        row.put("id", 8L);
        row.put("at", 1_000L);
        row.put("amount", ByteBuffer.wrap(new byte[] {1, 0}));
        row.put("tags", Arrays.asList(new Utf8("a"), new Utf8("ä")));
        return row;
    }
}
