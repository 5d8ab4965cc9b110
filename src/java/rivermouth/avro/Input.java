package rivermouth.avro;

import org.apache.spark.unsafe.types.UTF8String;

/**
 * The bytes of one record, read strictly: nothing is taken for a value that the schema has not, and no length is
 * believed that the bytes do not hold. A number may have more bytes than it needs, as Avro's other readers take it.
 */
final class Input {
    /** How many items without bytes of their own (nulls, empty records) a record may have in its arrays and maps. */
    static final int MOST_WEIGHTLESS = 100_000;

    /** So deep may be what only the writer knows. */
    static final int DEEPEST = 500;

    private static final int SEVEN_BITS = 0x7f;
    private static final int LAST_SHIFT = 63;

    private final byte[] bytes;
    private int at;
    private int weightless = MOST_WEIGHTLESS;
    private int depth;
    /** Where the block that was just begun ends, if it says so; else -1. */
    private int blockEnd;

    Input(byte[] bytes, int at) {
        this.bytes = bytes;
        this.at = at;
    }

    int position() {
        return at;
    }

    int depth() {
        return depth;
    }

    /** Back to where it was, to read the same otherwise. */
    void back(int position, int before) {
        at = position;
        depth = before;
    }

    boolean isAtEnd() {
        return at == bytes.length;
    }

    boolean readBoolean() {
        byte found = readByte();
        if (found != 0 && found != 1) {
            throw Refused.malformed("a boolean is neither 0 nor 1");
        }
        return found == 1;
    }

    long readLong() {
        long value = 0;
        for (int shift = 0; shift <= LAST_SHIFT; shift += 7) {
            byte part = readByte();
            if (shift == LAST_SHIFT && (part & ~1) != 0) {
                break;
            }
            value |= (long) (part & SEVEN_BITS) << shift;
            if (part >= 0) {
                return value >>> 1 ^ -(value & 1);
            }
        }
        throw Refused.malformed("a number has more than 64 bits");
    }

    int readInt() {
        long value = readLong();
        if (value != (int) value) {
            throw Refused.malformed("an int has more than 32 bits");
        }
        return (int) value;
    }

    float readFloat() {
        return Float.intBitsToFloat((int) littleEndian(Float.BYTES));
    }

    double readDouble() {
        return Double.longBitsToDouble(littleEndian(Double.BYTES));
    }

    byte[] readBytes() {
        return readFixed(length());
    }

    byte[] readFixed(int length) {
        int begin = advance(length);
        byte[] found = new byte[length];
        System.arraycopy(bytes, begin, found, 0, length);
        return found;
    }

    UTF8String readText() {
        int length = length();
        UTF8String text = UTF8String.fromBytes(bytes, advance(length), length);
        if (!text.isValid()) {
            throw new Refused("INVALID_UTF8", "a string is not valid UTF-8");
        }
        return text;
    }

    void skipBytes() {
        advance(length());
    }

    void skip(int length) {
        advance(length);
    }

    /** Which one of {@code count} symbols or branches. */
    int readIndex(int count, String what) {
        long index = readLong();
        if (index < 0 || index >= count) {
            throw Refused.malformed(what + " " + index + " of " + count);
        }
        return (int) index;
    }

    /**
     * The number of items in the next block; 0 behind the last one.
     *
     * @param least how many bytes each item has at least
     */
    int readBlock(int least) {
        long count = readLong();
        blockEnd = -1;
        if (count < 0) {
            long size = readLong();
            if (count == Long.MIN_VALUE || size < 0) {
                throw Refused.malformed("the length of a block is negative");
            }
            count = -count;
            blockEnd = at + fitting(size);
        }
        if (least == 0) {
            if (count > weightless) {
                throw new Refused("TOO_LONG", "more than " + MOST_WEIGHTLESS + " items have no bytes");
            }
            weightless -= (int) count;
        } else if (count > (bytes.length - at) / least) {
            throw Refused.truncated();
        }
        return (int) count;
    }

    int blockEnd() {
        return blockEnd;
    }

    /** A block that says how long it is has to be so long: elsewhere it would be skipped by that length. */
    void closeBlock(int end) {
        if (end >= 0 && end != at) {
            throw Refused.malformed("a block is not so long as it says");
        }
    }

    void deeper() {
        if (++depth > DEEPEST) {
            throw new Refused("TOO_DEEP", "more than " + DEEPEST + " levels of nesting");
        }
    }

    void higher() {
        depth--;
    }

    private int length() {
        long length = readLong();
        if (length < 0) {
            throw Refused.malformed("a length is negative");
        }
        return fitting(length);
    }

    private int fitting(long length) {
        if (length > bytes.length - at) {
            throw Refused.truncated();
        }
        return (int) length;
    }

    private int advance(int length) {
        int begin = at;
        at += fitting(length);
        return begin;
    }

    private byte readByte() {
        if (at == bytes.length) {
            throw Refused.truncated();
        }
        return bytes[at++];
    }

    private long littleEndian(int length) {
        int begin = advance(length);
        long value = 0;
        for (int place = length - 1; place >= 0; place--) {
            value = value << Byte.SIZE | bytes[begin + place] & 0xff;
        }
        return value;
    }
}
