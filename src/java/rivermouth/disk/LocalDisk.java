package rivermouth.disk;

import org.apache.hadoop.fs.LocalFileSystem;

/** {@code fs.file.impl}: Hadoop's local file system, with its checksums, over {@link RawLocalDisk}. */
public final class LocalDisk extends LocalFileSystem {

    public LocalDisk() {
        super(new RawLocalDisk());
    }
}
