package rivermouth.values;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * Members in the format of RFC 1952, one behind the other, and nothing else. Java's own stream takes whatever follows a
 * member for its end.
 */
final class Gzip extends InputStream {
    private static final int HEADER = 10;
    private static final int TRAILER = 8;
    private static final int DEFLATED = 8;
    private static final int HAS_CHECK = 2;
    private static final int HAS_EXTRA = 4;
    private static final int HAS_NAME = 8;
    private static final int HAS_COMMENT = 16;
    private static final int RESERVED = 0xe0;
    private static final int FIRST = 0x1f;
    private static final int SECOND = 0x8b;

    private final byte[] value;
    private final Inflater inflater = new Inflater(true);
    private final CRC32 sum = new CRC32();
    private int member;

    Gzip(byte[] value) throws IOException {
        this.value = value;
        boolean begun = false;
        try {
            begin(0);
            begun = true;
        } finally {
            if (!begun) {
                close();
            }
        }
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
        try {
            while (true) {
                int read = inflater.inflate(into, offset, length);
                if (read > 0) {
                    sum.update(into, offset, read);
                    return read;
                }
                if (inflater.needsInput() && !inflater.finished() || inflater.needsDictionary()) {
                    throw new IOException();
                }
                if (inflater.finished()) {
                    int behind = end();
                    if (behind == value.length) {
                        return -1;
                    }
                    begin(behind);
                }
            }
        } catch (DataFormatException error) {
            throw new IOException(error);
        }
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : Byte.toUnsignedInt(one[0]);
    }

    @Override
    public void close() {
        inflater.end();
    }

    private void begin(int place) throws IOException {
        int flags = byteAt(place + 3);
        if (byteAt(place) != FIRST || byteAt(place + 1) != SECOND || byteAt(place + 2) != DEFLATED
                || (flags & RESERVED) != 0) {
            throw new IOException();
        }
        int at = place + HEADER;
        if ((flags & HAS_EXTRA) != 0) {
            at += 2 + byteAt(at) + (byteAt(at + 1) << Byte.SIZE);
        }
        at = (flags & HAS_NAME) == 0 ? at : behindZero(at);
        at = (flags & HAS_COMMENT) == 0 ? at : behindZero(at);
        if ((flags & HAS_CHECK) != 0) {
            checkHeader(place, at);
            at += 2;
        }
        byteAt(at);
        member = at;
        sum.reset();
        inflater.reset();
        inflater.setInput(value, at, value.length - at);
    }

    /** What stands in a header is what its own sum, the lower half of a CRC32, says. */
    private void checkHeader(int from, int to) throws IOException {
        int said = byteAt(to) + (byteAt(to + 1) << Byte.SIZE);
        CRC32 header = new CRC32();
        header.update(value, from, to - from);
        if (said != (header.getValue() & 0xffff)) {
            throw new IOException();
        }
    }

    /** The place behind a member, whose sum and length are what they should be. */
    private int end() throws IOException {
        int trailer = member + Math.toIntExact(inflater.getBytesRead());
        if (trailer + TRAILER > value.length) {
            throw new IOException();
        }
        ByteBuffer said = ByteBuffer.wrap(value, trailer, TRAILER).order(ByteOrder.LITTLE_ENDIAN);
        if (said.getInt() != (int) sum.getValue() || said.getInt() != (int) inflater.getBytesWritten()) {
            throw new IOException();
        }
        return trailer + TRAILER;
    }

    private int behindZero(int place) throws IOException {
        int at = place;
        while (byteAt(at) != 0) {
            at++;
        }
        return at + 1;
    }

    private int byteAt(int place) throws IOException {
        if (place >= value.length) {
            throw new IOException();
        }
        return Byte.toUnsignedInt(value[place]);
    }
}
