package rivermouth.internals.checkpoints;

import java.io.ByteArrayOutputStream;
import java.io.IOException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

import rivermouth.store.Conditional;

/**
 * {@code spark.sql.streaming.checkpointFileManagerClass}: Spark's own, but on S3 a file is put where it belongs.
 *
 * <p>Spark writes a temporary file and renames it, which on S3 is a copy and a deletion: ten requests for a file, three
 * files a batch, Delta's checksum of a commit among them. An object appears whole when its stream is closed, so the
 * name can be its own from the beginning.
 */
public final class ConditionalCheckpointFiles extends FileSystemBasedCheckpointFileManager {

    /** Spark asks for a constructor with these two. */
    public ConditionalCheckpointFiles(Path path, Configuration conf) {
        super(path, conf);
    }

    @Override
    public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
        FileSystem files = fs();
        if (!(files instanceof S3AFileSystem)) {
            return super.createAtomic(path, overwriteIfPossible);
        }
        return new Whole(files, path, overwriteIfPossible);
    }

    /** Kept in memory until it is closed: these files have a few kilobytes. */
    private static final class Whole extends CancellableFSDataOutputStream {

        private final FileSystem files;
        private final Path path;
        private final boolean overwrites;
        private final ByteArrayOutputStream content;
        private boolean ended;

        Whole(FileSystem files, Path path, boolean overwrites) {
            this(files, path, overwrites, new ByteArrayOutputStream());
        }

        private Whole(FileSystem files, Path path, boolean overwrites, ByteArrayOutputStream content) {
            super(content);
            this.files = files;
            this.path = path;
            this.overwrites = overwrites;
            this.content = content;
        }

        @Override
        public void cancel() {
            ended = true;
        }

        @Override
        public void close() throws IOException {
            if (ended) {
                return;
            }
            ended = true;
            flush();
            if (overwrites) {
                Conditional.write(files.create(path, true), content.toByteArray());
            } else if (!Conditional.put(files, path, content.toByteArray())) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }
    }
}
