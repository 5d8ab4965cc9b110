package rivermouth.internals.files;

import static org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.unescapePathName;

import java.io.Serializable;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Objects;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

/** The values of columns that the folders {@code name=value} of files make, as Spark reads them. */
public final class FolderValues implements Serializable {
    private static final long serialVersionUID = 1;
    private static final String NULL = "__HIVE_DEFAULT_PARTITION__";

    private final ArrayList<String> columns = new ArrayList<>();
    private transient UTF8String last;
    private transient ArrayData found;

    /**
     * Of one source.
     *
     * @param columns names of the columns, in any letter case
     */
    public FolderValues(List<String> columns) {
        for (String each : columns) {
            this.columns.add(each.toLowerCase(Locale.ROOT));
        }
    }

    /** Of SQL with the address of a file: an array with a text or null for each column; null without a text. */
    public Column of(String file) {
        return Calls.of(
                this, "texts", DataTypes.createArrayType(DataTypes.StringType), true, functions.expr(file));
    }

    /** For Spark: the texts, or null. The rows of a file come one after the other. */
    public ArrayData texts(UTF8String file) {
        if (file == null) {
            return null;
        }
        if (!file.equals(last)) {
            Object[] texts = texts(path(file.toString()));
            boolean any = Arrays.stream(texts).anyMatch(Objects::nonNull);
            found = any ? new GenericArrayData(texts) : null;
            last = file.clone();
        }
        return found;
    }

    private Object[] texts(String path) {
        Object[] texts = new Object[columns.size()];
        String[] steps = path.split("/", -1);
        for (int place = 0; place < steps.length - 1; place++) {
            int between = steps[place].indexOf('=');
            if (between <= 0) {
                continue;
            }
            int column = columns.indexOf(unescapePathName(steps[place].substring(0, between)).toLowerCase(Locale.ROOT));
            String text = unescapePathName(steps[place].substring(between + 1));
            if (column >= 0 && texts[column] == null && !text.isEmpty() && !text.equals(NULL)) {
                texts[column] = UTF8String.fromString(text);
            }
        }
        return texts;
    }

    /** The names of folders as they are on disk. */
    private static String path(String address) {
        try {
            String path = URI.create(address).getPath();
            return path == null ? address : path;
        } catch (IllegalArgumentException malformed) {
            return address;
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FolderValues && columns.equals(((FolderValues) other).columns);
    }

    @Override
    public int hashCode() {
        return columns.hashCode();
    }
}
