package rivermouth.disk;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsConstants;

/** {@code fs.AbstractFileSystem.file.impl}: the same for {@code FileContext}, through which Delta writes its log. */
public final class LocalDiskContext extends ChecksumFs {

    // Hadoop asks for a constructor with these two.
    LocalDiskContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
        super(new Raw(conf));
    }

    private static final class Raw extends DelegateToFileSystem {

        private static final int NO_PORT = -1;

        Raw(Configuration conf) throws IOException, URISyntaxException {
            super(FsConstants.LOCAL_FS_URI, new RawLocalDisk(), conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
        }

        @Override
        public int getUriDefaultPort() {
            return NO_PORT;
        }

        @Override
        public boolean isValidName(String name) {
            return true; // as Hadoop's own: the operating system decides
        }
    }
}
