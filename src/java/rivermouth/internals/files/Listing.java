package rivermouth.internals.files;

import java.io.FileNotFoundException;
import java.io.IOException;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

import org.apache.spark.sql.classic.SparkSession;

/** The files of a source, as Spark's file source finds them: in all folders, without hidden ones. */
public final class Listing {
    private Listing() {
    }

    /**
     * A line for each file: the time of its last change in milliseconds, its size in bytes, and its address.
     *
     * @param path a folder or file; may have wildcards
     * @return null where there is no such place
     */
    public static String of(SparkSession session, String path) throws IOException {
        Path place = new Path(path);
        Configuration conf = session.sessionState().newHadoopConf();
        FileSystem files = place.getFileSystem(conf);
        FileStatus[] roots = files.globStatus(place);
        if (roots == null || roots.length == 0) {
            return null;
        }
        StringBuilder found = new StringBuilder();
        for (FileStatus root : roots) {
            if (root.isFile()) {
                if (!isHidden(root.getPath().getName())) {
                    add(root, found);
                }
                continue;
            }
            try {
                RemoteIterator<LocatedFileStatus> below = files.listFiles(root.getPath(), true);
                int length = root.getPath().toUri().getPath().length();
                while (below.hasNext()) {
                    FileStatus each = below.next();
                    if (!isHidden(each.getPath().toUri().getPath().substring(length))) {
                        add(each, found);
                    }
                }
            } catch (FileNotFoundException gone) {
                continue;
            }
        }
        return found.toString();
    }

    private static void add(FileStatus file, StringBuilder found) {
        found.append(file.getModificationTime()).append('\t').append(file.getLen()).append('\t')
                .append(file.getPath().toUri()).append('\n');
    }

    private static boolean isHidden(String below) {
        for (String name : below.split("/")) {
            if (name.startsWith(".") || name.startsWith("_") && !name.contains("=") || name.endsWith("._COPYING_")) {
                return true;
            }
        }
        return false;
    }
}
