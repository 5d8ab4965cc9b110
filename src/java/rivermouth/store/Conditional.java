package rivermouth.store;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;

/** Puts where the server says which one was first. */
public final class Conditional {

    private Conditional() {}

    /**
     * Puts an object with {@code If-None-Match: *}; says whether it is there now as this call wants it.
     *
     * <p>Where the answer to a put is lost, or a retry of it is refused because the first one had landed, what lies
     * there decides: nobody else writes the same bytes, so equal ones are this very put's.
     */
    public static boolean put(FileSystem files, Path path, byte[] content) throws IOException {
        try {
            FSDataOutputStreamBuilder<?, ?> how = files.createFile(path);
            // Nothing is asked beforehand.
            how.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
            write(how.build(), content);
            return true;
        } catch (IOException refused) {
            byte[] there = read(files, path, refused);
            if (there == null) {
                throw refused;
            }
            return Arrays.equals(there, content);
        }
    }

    /** Writes all and closes; an object comes into being by that. */
    public static void write(FSDataOutputStream stream, byte[] content) throws IOException {
        try {
            stream.write(content);
        } catch (IOException | RuntimeException broken) {
            stream.abort(); // closing it would put the half of it
            throw broken;
        }
        stream.close();
    }

    /** What lies at the path; null if nothing does. */
    private static byte[] read(FileSystem files, Path path, IOException refused) throws IOException {
        try (InputStream stream = files.open(path)) {
            return stream.readAllBytes();
        } catch (FileNotFoundException missing) {
            return null;
        } catch (IOException unknown) {
            refused.addSuppressed(unknown);
            throw refused;
        }
    }
}
