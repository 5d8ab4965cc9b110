package rivermouth.disk;

import java.io.IOException;
import java.nio.file.Files;
import java.util.Arrays;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Hadoop's local files without processes: where Hadoop has no native library it starts {@code chmod} and
 * {@code readlink} for each file that it makes or renames.
 *
 * <p>Files, their permissions and the errors are Hadoop's own. What must not overwrite is one step here: of two
 * processes that make one file, or give one name to two files, one is refused.
 */
final class RawLocalDisk extends RawLocalFileSystem {

    private static final String MODE = "unix:mode";
    private static final int SET_IDS = 06000;

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        java.nio.file.Path file = file(path);
        // chmod leaves a folder these two bits, by which a team shares it.
        int kept = Files.isDirectory(file) ? (int) Files.getAttribute(file, MODE) & SET_IDS : 0;
        Files.setAttribute(file, MODE, permission.toShort() | kept);
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
        return Files.isSymbolicLink(file(path)) ? super.getFileLinkStatus(path) : getFileStatus(path);
    }

    @Override
    public FSDataOutputStream create(
            Path path, boolean overwrite, int bufferSize, short replication, long blockSize, Progressable progress)
            throws IOException {
        boolean taken = !overwrite && taken(path);
        try {
            return super.create(path, overwrite || taken, bufferSize, replication, blockSize, progress);
        } catch (IOException failed) {
            giveBack(path, taken, failed);
            throw failed;
        }
    }

    @Override
    public FSDataOutputStream create(
            Path path,
            FsPermission permission,
            boolean overwrite,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException {
        boolean taken = !overwrite && taken(path);
        try {
            return super.create(
                    path, permission, overwrite || taken, bufferSize, replication, blockSize, progress);
        } catch (IOException failed) {
            giveBack(path, taken, failed);
            throw failed;
        }
    }

    /** Whether an empty file was made now, where none must be; not where the disk says no, which Hadoop then tells. */
    private boolean taken(Path path) throws IOException {
        Path parent = path.getParent();
        if (parent != null && !mkdirs(parent)) {
            return false;
        }
        try {
            Files.createFile(file(path));
            return true;
        } catch (java.nio.file.FileAlreadyExistsException there) {
            throw new FileAlreadyExistsException("File already exists: " + path);
        } catch (IOException none) {
            return false;
        }
    }

    private void giveBack(Path path, boolean taken, IOException failed) {
        try {
            if (taken) {
                Files.deleteIfExists(file(path));
            }
        } catch (IOException second) {
            failed.addSuppressed(second);
        }
    }

    @Override
    @SuppressWarnings("deprecation") // Hadoop means it for callers: FileContext still comes this way
    protected void rename(Path from, Path to, Rename... options) throws IOException {
        boolean mayOverwrite = Arrays.asList(options).contains(Rename.OVERWRITE);
        if (mayOverwrite || !Files.isRegularFile(file(from)) || !linked(from, to)) {
            super.rename(from, to, options);
            return;
        }
        try {
            Files.deleteIfExists(file(from));
        } catch (IOException done) {
            return; // the name is given, and a second one does no harm
        }
    }

    /** Whether {@code to} is a second name of {@code from} now; not where the disk has no hard links. */
    private boolean linked(Path from, Path to) throws IOException {
        try {
            Files.createLink(file(to), file(from));
            return true;
        } catch (java.nio.file.FileAlreadyExistsException taken) {
            if (!from.equals(to) && Files.isSameFile(file(from), file(to))) {
                return true; // a network file system sent the request twice
            }
            throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
        } catch (IOException | UnsupportedOperationException none) {
            return false; // and Hadoop says what is wrong, if anything is
        }
    }

    private java.nio.file.Path file(Path path) {
        return pathToFile(path).toPath();
    }
}
