package rivermouth.store;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

import io.delta.storage.S3SingleDriverLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * {@code spark.delta.logStore.s3a.impl}: Delta's own store for S3, but a commit is put only where none is.
 *
 * <p>Delta's own looks first and then puts, and a put overwrites: a driver that slept between the two destroys a
 * commit that another one has made meanwhile. This one puts with {@code If-None-Match: *}, which the server judges.
 *
 * <p>Delta lists its log before each commit, from its last checkpoint on. Its own store asks for all that the log
 * has, a request for each thousand files of thirty days; this one has the server begin where Delta does. Delta's own
 * setting for that was made for another version of Hadoop.
 */
public final class ConditionalLogStore extends S3SingleDriverLogStore {

    /** Delta asks for a constructor with this one. */
    public ConditionalLogStore(Configuration conf) {
        super(conf);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite) {
            super.write(path, actions, true, conf);
            return;
        }
        if (!Conditional.put(path.getFileSystem(conf), path, lines(actions))) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }

    @Override
    public Iterator<FileStatus> listFrom(Path first, Configuration conf) throws IOException {
        FileSystem files = first.getFileSystem(conf);
        // Data folders have folders in them, which Delta's VACUUM wants to see; and the user may have another S3.
        if (!first.getParent().getName().equals("_delta_log") || !(files instanceof S3AFileSystem store)) {
            return super.listFrom(first, conf);
        }
        Path folder = store.makeQualified(first.getParent());
        List<FileStatus> found = listFrom(store, folder, first.getName());
        // It knows a log that is empty from one that is not there.
        return found.isEmpty() ? super.listFrom(first, conf) : found.iterator();
    }

    private static List<FileStatus> listFrom(S3AFileSystem store, Path folder, String first) throws IOException {
        String prefix = folder.toUri().getPath().substring(1) + "/";
        ListObjectsV2Request request =
                ListObjectsV2Request.builder()
                        .bucket(store.getBucket())
                        .prefix(prefix)
                        .delimiter("/")
                        // The server begins after this one, and ``first`` itself is wanted.
                        .startAfter(prefix + first.substring(0, first.length() - 1))
                        .build();
        List<FileStatus> found = new ArrayList<>();
        try {
            S3Client client = store.getS3AInternals().getAmazonS3Client("Delta's log");
            for (S3Object each : client.listObjectsV2Paginator(request).contents()) {
                String name = each.key().substring(prefix.length());
                if (name.compareTo(first) >= 0) {
                    long modified = each.lastModified().toEpochMilli();
                    found.add(new FileStatus(each.size(), false, 1, each.size(), modified, new Path(folder, name)));
                }
            }
        } catch (SdkException refused) {
            throw S3AUtils.translateException("list", folder, refused);
        }
        return found;
    }

    private static byte[] lines(Iterator<String> actions) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            content.writeBytes((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        return content.toByteArray();
    }
}
