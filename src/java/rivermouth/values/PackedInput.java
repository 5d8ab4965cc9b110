package rivermouth.values;

import java.math.BigInteger;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.unsafe.types.UTF8String;

/**
 * Bytes in MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) as plain values: null, {@code Boolean},
 * {@code Long}, {@code BigInteger}, {@code Float}, {@code Double}, {@code UTF8String}, {@code byte[]}, {@code Instant},
 * {@code List}, {@code Map}, and {@code Extension}.
 */
final class PackedInput {
    private static final int MAX_DEPTH = 200;
    private static final int TIMESTAMP = -1;
    private static final int LONG_TIMESTAMP = 12;
    private static final int SECOND_BITS = 34;
    private static final int BYTE = 0xff;
    private static final int SHORT = 0xffff;
    private static final long INT = 0xffffffffL;

    private final ByteBuffer in;

    PackedInput(byte[] value) {
        in = ByteBuffer.wrap(value);
    }

    /** What an application of somebody's knows. */
    static final class Extension implements View.Said {
        @Override
        public String words() {
            return "an extension of an application's";
        }
    }

    /** The only value. */
    Object all() {
        try {
            Object found = value(0);
            if (in.hasRemaining()) {
                throw new Refused("TRAILING_BYTES", "bytes follow the value");
            }
            return found;
        } catch (BufferUnderflowException end) {
            throw truncated();
        }
    }

    private Object value(int depth) {
        if (depth > MAX_DEPTH) {
            throw new Refused("TOO_DEEP", "values are nested more than " + MAX_DEPTH + " deep");
        }
        int head = in.get() & BYTE;
        if (head <= 0x7f || head >= 0xe0) {
            return (long) (byte) head;
        }
        if (head <= 0x8f) {
            return map(head & 0x0f, depth);
        }
        if (head <= 0x9f) {
            return list(head & 0x0f, depth);
        }
        return head <= 0xbf ? text(head & 0x1f) : marked(head, depth);
    }

    private Object marked(int head, int depth) {
        switch (head) {
            case 0xc0:
                return null;
            case 0xc2:
                return false;
            case 0xc3:
                return true;
            case 0xc4:
                return bytes(in.get() & BYTE);
            case 0xc5:
                return bytes(in.getShort() & SHORT);
            case 0xc6:
                return bytes(in.getInt() & INT);
            case 0xc7:
                return extension(in.get() & BYTE);
            case 0xc8:
                return extension(in.getShort() & SHORT);
            case 0xc9:
                return extension(in.getInt() & INT);
            case 0xca:
                return in.getFloat();
            case 0xcb:
                return in.getDouble();
            case 0xd4:
            case 0xd5:
            case 0xd6:
            case 0xd7:
            case 0xd8:
                return extension(1L << head - 0xd4);
            case 0xd9:
                return text(in.get() & BYTE);
            case 0xda:
                return text(in.getShort() & SHORT);
            case 0xdb:
                return text(in.getInt() & INT);
            case 0xdc:
                return list(in.getShort() & SHORT, depth);
            case 0xdd:
                return list(in.getInt() & INT, depth);
            case 0xde:
                return map(in.getShort() & SHORT, depth);
            case 0xdf:
                return map(in.getInt() & INT, depth);
            default:
                return number(head);
        }
    }

    private Object number(int head) {
        switch (head) {
            case 0xcc:
                return (long) (in.get() & BYTE);
            case 0xcd:
                return (long) (in.getShort() & SHORT);
            case 0xce:
                return in.getInt() & INT;
            case 0xcf:
                long found = in.getLong();
                return found >= 0 ? (Object) found : new BigInteger(Long.toUnsignedString(found));
            case 0xd0:
                return (long) in.get();
            case 0xd1:
                return (long) in.getShort();
            case 0xd2:
                return (long) in.getInt();
            case 0xd3:
                return in.getLong();
            default:
                throw new Refused("INVALID_MSGPACK", "a byte begins no value");
        }
    }

    private byte[] bytes(long length) {
        if (length > in.remaining()) {
            throw truncated();
        }
        byte[] found = new byte[(int) length];
        in.get(found);
        return found;
    }

    private UTF8String text(long length) {
        UTF8String found = UTF8String.fromBytes(bytes(length));
        if (!found.isValid()) {
            throw new Refused("INVALID_UTF8", "a string is not valid UTF-8");
        }
        return found;
    }

    private Object list(long size, int depth) {
        // Each element has a byte at least.
        if (size > in.remaining()) {
            throw truncated();
        }
        // No room is kept for what is only claimed: each list within may claim as much.
        List<Object> found = new ArrayList<>();
        for (long place = 0; place < size; place++) {
            found.add(value(depth + 1));
        }
        return found;
    }

    private Object map(long size, int depth) {
        if (2 * size > in.remaining()) {
            throw truncated();
        }
        Map<Object, Object> found = new LinkedHashMap<>();
        for (long place = 0; place < size; place++) {
            Object key = value(depth + 1);
            if (!(key instanceof UTF8String || key instanceof Long || key instanceof BigInteger || key instanceof Boolean)) {
                throw new Refused("INVALID_MSGPACK", "a key is neither a string nor a whole number nor a boolean");
            }
            if (found.containsKey(key)) {
                throw new Refused("INVALID_MSGPACK", "a key is there twice in one map");
            }
            found.put(key, value(depth + 1));
        }
        return found;
    }

    private Object extension(long length) {
        int type = in.get();
        byte[] content = bytes(length);
        if (type != TIMESTAMP) {
            return new Extension();
        }
        ByteBuffer parts = ByteBuffer.wrap(content);
        try {
            switch (content.length) {
                case Integer.BYTES:
                    return Instant.ofEpochSecond(parts.getInt() & INT);
                case Long.BYTES:
                    long both = parts.getLong();
                    return instant(both & (1L << SECOND_BITS) - 1, both >>> SECOND_BITS);
                case LONG_TIMESTAMP:
                    long nanos = parts.getInt() & INT;
                    return instant(parts.getLong(), nanos);
                default:
                    throw new Refused("INVALID_MSGPACK", "a timestamp has a length that it never has");
            }
        } catch (DateTimeException far) {
            throw new Refused("INVALID_MSGPACK", "a timestamp is beyond all times");
        }
    }

    private static Instant instant(long second, long nanos) {
        if (nanos > 999_999_999) {
            throw new Refused("INVALID_MSGPACK", "a timestamp has more nanoseconds than a second");
        }
        return Instant.ofEpochSecond(second, nanos);
    }

    private static Refused truncated() {
        return new Refused("TRUNCATED", "the value ends before a length in it is reached");
    }
}
