package rivermouth.internals.parted;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;

import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Files that lie at once where they stay: those of partition n in folder n, under names that nobody has.
 *
 * <p>As with Delta's own protocol nothing is moved; what a task left that failed, no version of a table names.
 */
final class Folders extends FileCommitProtocol implements Serializable {
    private static final long serialVersionUID = 1;

    private final String column;
    private final ArrayList<String> folders;
    private transient List<New> begun;
    private transient List<New> done;

    /**
     * @param column by which the rows are partitioned: the number of a folder
     * @param folders of the tables
     */
    Folders(String column, List<String> folders) {
        this.column = column;
        this.folders = new ArrayList<>(folders);
    }

    /** What was written, once the job is done. */
    List<New> done() {
        return done;
    }

    @Override
    public void setupJob(JobContext job) {
        done = new ArrayList<>();
    }

    @Override
    public void setupTask(TaskAttemptContext task) {
        begun = new ArrayList<>();
    }

    @Override
    public String newTaskTempFile(TaskAttemptContext task, Option<String> partition, String ending) {
        int number = Integer.parseInt(partition.get().substring(column.length() + 1));
        int split = task.getTaskAttemptID().getTaskID().getId();
        String name = String.format("part-%05d-%s%s", split, UUID.randomUUID(), ending);
        begun.add(new New(number, name, 0, 0));
        return new Path(folders.get(number), name).toString();
    }

    @Override
    public TaskCommitMessage commitTask(TaskAttemptContext task) {
        ArrayList<New> found = new ArrayList<>();
        try {
            for (New each : begun) {
                FileStatus status = status(each, task.getConfiguration());
                found.add(new New(each.folder, each.name, status.getLen(), status.getModificationTime()));
            }
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        return new TaskCommitMessage(found);
    }

    private FileStatus status(New file, Configuration conf) throws IOException {
        Path path = new Path(folders.get(file.folder), file.name);
        return path.getFileSystem(conf).getFileStatus(path);
    }

    @Override
    @SuppressWarnings("unchecked")
    public void commitJob(JobContext job, Seq<TaskCommitMessage> messages) {
        CollectionConverters.asJava(messages).forEach(each -> done.addAll((List<New>) each.obj()));
    }

    @Override
    public void abortJob(JobContext job) {
    }

    @Override
    public void abortTask(TaskAttemptContext task) {
        for (New each : begun) {
            Path path = new Path(folders.get(each.folder), each.name);
            try {
                path.getFileSystem(task.getConfiguration()).delete(path, false);
            } catch (IOException left) {
                // No version names it.
            }
        }
    }

    /** A file, by the number of its folder. */
    static final class New implements Serializable {
        private static final long serialVersionUID = 1;

        final int folder;
        final String name;
        final long bytes;
        final long writtenAt;

        New(int folder, String name, long bytes, long writtenAt) {
            this.folder = folder;
            this.name = name;
            this.bytes = bytes;
            this.writtenAt = writtenAt;
        }
    }
}
