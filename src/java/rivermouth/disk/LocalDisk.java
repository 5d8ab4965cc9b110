package rivermouth.disk;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/** {@code fs.file.impl}: Hadoop's local file system, with its checksums, over {@link RawLocalDisk}. */
public final class LocalDisk extends LocalFileSystem {

    public LocalDisk() {
        super(new RawLocalDisk());
    }

    /** As Hadoop's, which takes what is before a colon in a file's name for the scheme of an address. */
    @Override
    public Path getChecksumFile(Path file) {
        return new Path(file.getParent(), new Path(null, null, "." + file.getName() + ".crc"));
    }
}
