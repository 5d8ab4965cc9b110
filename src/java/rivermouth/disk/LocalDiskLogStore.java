package rivermouth.disk;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;

import io.delta.storage.HDFSLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * {@code spark.delta.logStore.file.impl}: Delta's own store, but for its way of listing.
 *
 * <p>Delta lists its log before each commit, from its last checkpoint on. Its own store asks the operating system
 * about every file of the log: four for each commit of thirty days. This one asks only about those that Delta asks
 * for.
 */
public final class LocalDiskLogStore extends HDFSLogStore {

    /** Delta asks for a constructor with this one. */
    public LocalDiskLogStore(Configuration conf) {
        super(conf);
    }

    @Override
    public Iterator<FileStatus> listFrom(Path first, Configuration conf) throws IOException {
        FileSystem files = first.getFileSystem(conf);
        if (!(files instanceof LocalDisk disk)) {
            return super.listFrom(first, conf); // the user's settings chose another one
        }
        Path folder = first.getParent();
        List<Path> wanted = new ArrayList<>();
        try (DirectoryStream<java.nio.file.Path> found = Files.newDirectoryStream(disk.pathToFile(folder).toPath())) {
            for (java.nio.file.Path each : found) {
                // In three parts, because a name may have a colon.
                Path path = new Path(folder, new Path(null, null, each.getFileName().toString()));
                if (path.getName().compareTo(first.getName()) >= 0 && !ChecksumFileSystem.isChecksumFile(path)) {
                    wanted.add(path);
                }
            }
        } catch (DirectoryIteratorException broken) {
            throw broken.getCause();
        } catch (NoSuchFileException | NotDirectoryException missing) {
            return super.listFrom(first, conf); // which says so
        }
        wanted.sort(Comparator.comparing(Path::getName));
        List<FileStatus> statuses = new ArrayList<>(wanted.size());
        for (Path path : wanted) {
            try {
                statuses.add(files.getFileStatus(path));
            } catch (FileNotFoundException gone) {
                continue; // cleaned up since its name was read, as in Hadoop's own listing
            }
        }
        return statuses.iterator();
    }
}
