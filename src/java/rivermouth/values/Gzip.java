package rivermouth.values;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.zip.Deflater;
import java.util.zip.GZIPInputStream;

/**
 * Members in the format of RFC 1952, one behind the other, and nothing else. The JDK's stream ends without an error at
 * bytes that are no member; this one does not.
 *
 * <p>It is not the stream of commons-compress, which does not look at the checksum of a header.
 */
final class Gzip extends GZIPInputStream {
    private static final int HEADER = 10;
    private static final int TRAILER = 8;
    private static final int METHOD = 2;
    private static final int FLAGS = 3;
    private static final int RESERVED = 0xe0;

    /** The whole value is in one buffer: what is left there at the end belongs to no member. */
    Gzip(byte[] value) throws IOException {
        super(begun(value), value.length);
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
        int read = super.read(into, offset, length);
        if (read < 0 && inf.getRemaining() != TRAILER) {
            throw new IOException();
        }
        return read;
    }

    /** Looks at the first header before there is an inflater: one of a value that is refused would stay till the GC. */
    private static InputStream begun(byte[] value) throws IOException {
        if (value.length < HEADER || value[0] != (byte) GZIP_MAGIC || value[1] != (byte) (GZIP_MAGIC >> Byte.SIZE)
                || value[METHOD] != Deflater.DEFLATED || (value[FLAGS] & RESERVED) != 0) {
            throw new IOException();
        }
        return new ByteArrayInputStream(value);
    }
}
