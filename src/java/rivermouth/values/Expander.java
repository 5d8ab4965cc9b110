package rivermouth.values;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdException;
import com.github.luben.zstd.ZstdInputStreamNoFinalizer;

/** A value that is compressed: its bytes as they were before, if they are not more than may be. */
public final class Expander extends Step {
    private static final long serialVersionUID = 1;
    private static final int CHUNK = 16_384;
    /** 8 MiB, which RFC 8878 asks of all: who compresses a stream does not say how little it will be. */
    private static final int SMALLEST_WINDOW = 23;
    private static final int GREATEST_WINDOW = 27;

    private final String compression;
    private final int maxBytes;

    /**
     * A way of one flow.
     *
     * @param compression gzip or zstd
     * @param maxBytes how many bytes may come out of a value
     */
    public Expander(String compression, int maxBytes) {
        this.compression = compression;
        this.maxBytes = maxBytes;
    }

    @Override
    Object of(byte[] value) {
        try (InputStream in = compression.equals("gzip") ? new Gzip(value) : zstd(value)) {
            return bytes(in, value.length);
        } catch (IOException | ZstdException error) {
            throw told(error);
        }
    }

    @Override
    DataType type() {
        return DataTypes.BinaryType;
    }

    @Override
    List<Object> key() {
        return List.of(compression, maxBytes);
    }

    private byte[] bytes(InputStream in, int length) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream(Math.min(maxBytes, Math.max(CHUNK, length)));
        byte[] chunk = new byte[CHUNK];
        for (int read = in.read(chunk); read >= 0; read = in.read(chunk)) {
            if (read > maxBytes - out.size()) {
                throw tooLarge();
            }
            out.write(chunk, 0, read);
        }
        return out.toByteArray();
    }

    /** A window that is much greater than all that may come out is memory for nothing. */
    private InputStream zstd(byte[] value) throws IOException {
        checkFrames(value);
        ZstdInputStreamNoFinalizer in = new ZstdInputStreamNoFinalizer(new ByteArrayInputStream(value));
        int bits = Integer.SIZE - Integer.numberOfLeadingZeros(maxBytes);
        in.setLongMax(Math.max(SMALLEST_WINDOW, Math.min(GREATEST_WINDOW, bits)));
        return in;
    }

    /** Java's stream takes the beginning of another frame for its end. */
    private static void checkFrames(byte[] value) throws IOException {
        if (value.length == 0) {
            throw new IOException();
        }
        int at = 0;
        do {
            at += (int) Zstd.findFrameCompressedSize(value, at, value.length - at);
        } while (at < value.length);
    }

    private Refused told(Exception error) {
        String why = String.valueOf(error.getMessage());
        if (why.contains("too much memory")) {
            return tooLarge();
        }
        return new Refused("INVALID_COMPRESSION", "the value is not " + compression + " from its first byte to its last");
    }

    private Refused tooLarge() {
        return new Refused("TOO_LARGE", "the value expands to more than " + maxBytes + " bytes");
    }
}
