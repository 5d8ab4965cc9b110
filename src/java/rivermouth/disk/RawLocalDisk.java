package rivermouth.disk;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;

import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files without processes: where Hadoop has no native library it starts {@code chmod} and
 * {@code readlink} for each file that it makes or renames.
 *
 * <p>Files, their permissions and the errors are Hadoop's own. A rename that must not overwrite is one step here: of
 * two processes that give one name to two files, one is refused.
 */
final class RawLocalDisk extends RawLocalFileSystem {

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        if (permission.getStickyBit()) {
            super.setPermission(path, permission); // java.nio has no word for it
            return;
        }
        String symbols = permission.getUserAction().SYMBOL
                + permission.getGroupAction().SYMBOL
                + permission.getOtherAction().SYMBOL;
        Files.setPosixFilePermissions(file(path), PosixFilePermissions.fromString(symbols));
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
        return Files.isSymbolicLink(file(path)) ? super.getFileLinkStatus(path) : getFileStatus(path);
    }

    @Override
    @SuppressWarnings("deprecation") // Hadoop means it for callers: FileContext still comes this way
    protected void rename(Path from, Path to, Rename... options) throws IOException {
        boolean mayOverwrite = Arrays.asList(options).contains(Rename.OVERWRITE);
        if (mayOverwrite || !Files.isRegularFile(file(from)) || !linked(from, to)) {
            super.rename(from, to, options);
            return;
        }
        Files.delete(file(from));
    }

    /** Whether {@code to} is a second name of {@code from} now; not where the disk has no hard links. */
    private boolean linked(Path from, Path to) throws FileAlreadyExistsException {
        try {
            Files.createLink(file(to), file(from));
            return true;
        } catch (java.nio.file.FileAlreadyExistsException taken) {
            throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
        } catch (IOException | UnsupportedOperationException none) {
            return false; // and Hadoop says what is wrong, if anything is
        }
    }

    private java.nio.file.Path file(Path path) {
        return pathToFile(path).toPath();
    }
}
