package rivermouth.internals.stats;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.statistics.Statistics;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.sql.delta.NoMapping$;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.sources.DeltaSQLConf$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

import rivermouth.internals.stats.FooterValues.Prefix;

/**
 * Delta's statistics of new files, from what the footers of the files know, instead of from every row.
 *
 * <p>Parquet's writer always notes the least and the greatest value of each column and how many are null. Delta works
 * them out a second time, row by row, in an aggregation of its own. What comes out here is the same text.
 */
public final class Footers {
    private static final int THREADS = 16;
    private static final int NULLS = 2;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final StructType columns;
    private final boolean tight;
    private final Prefix least;
    private final Prefix greatest;
    private final Path root;
    private final Configuration conf;

    private Footers(Snapshot snapshot, Path root, Configuration conf) {
        Object length = SQLConf.get().getConf(DeltaSQLConf$.MODULE$.DATA_SKIPPING_STRING_PREFIX_LENGTH());
        this.columns = snapshot.statCollectionPhysicalSchema();
        this.tight = snapshot.deletionVectorsSupported();
        this.least = Prefix.least((Integer) length);
        this.greatest = Prefix.greatest((Integer) length);
        this.root = root;
        this.conf = conf;
    }

    /** Whether footers tell all that Delta's statistics of this table's new files hold. */
    public static boolean suffice(Snapshot snapshot) {
        return snapshot.metadata().columnMappingMode() == NoMapping$.MODULE$
                && Arrays.stream(snapshot.statCollectionPhysicalSchema().fields())
                        .allMatch(field -> FooterValues.tell(field.dataType()));
    }

    /**
     * The actions of a commit, with statistics in those that add a file; none for a file without rows, as Delta does.
     *
     * @param actions as Delta's writer returns them when it collects no statistics
     * @param snapshot of the table, one for which the footers {@link #suffice}
     * @param root the table's folder
     * @throws IOException a footer cannot be read
     */
    public static Seq<Action> told(Seq<Action> actions, Snapshot snapshot, Path root, Configuration conf)
            throws IOException, InterruptedException {
        Footers table = new Footers(snapshot, root, conf);
        List<Callable<Action>> tasks = new ArrayList<>();
        for (Action action : CollectionConverters.asJava(actions)) {
            tasks.add(() -> action instanceof AddFile ? table.told((AddFile) action) : action);
        }
        if (tasks.isEmpty()) {
            return actions;
        }
        ExecutorService pool = Executors.newFixedThreadPool(Math.min(THREADS, tasks.size()));
        try {
            List<Action> found = new ArrayList<>();
            for (Future<Action> each : pool.invokeAll(tasks)) {
                if (each.get() != null) {
                    found.add(each.get());
                }
            }
            return scala.collection.immutable.List.from(CollectionConverters.asScala(found));
        } catch (ExecutionException error) {
            throw error.getCause() instanceof IOException ? (IOException) error.getCause() : new IOException(error.getCause());
        } finally {
            pool.shutdownNow();
        }
    }

    /** Null for a file without rows. */
    private Action told(AddFile file) throws IOException, ReflectiveOperationException {
        // The path in an action is a URI's: escaped, and relative to the table.
        Path path = new Path(root, new Path(URI.create(file.path())));
        FileStatus status = new FileStatus(file.size(), false, 1, file.size(), file.modificationTime(), path);
        List<BlockMetaData> blocks;
        // Without options of its own a reader would read Hadoop's settings from their files.
        ParquetReadOptions options = HadoopReadOptions.builder(conf).build();
        try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf), options)) {
            blocks = reader.getFooter().getBlocks();
        }
        return blocks.isEmpty() ? null : with(file, statistics(blocks));
    }

    private String statistics(List<BlockMetaData> blocks) {
        ObjectNode told = JSON.createObjectNode();
        told.put("numRecords", blocks.stream().mapToLong(BlockMetaData::getRowCount).sum());
        ObjectNode[] parts = {told.putObject("minValues"), told.putObject("maxValues"), told.putObject("nullCount")};
        put(blocks, columns, List.of(), parts);
        if (tight) {
            told.put("tightBounds", true);
        }
        return told.toString();
    }

    /** The fields of a struct, or of a row: their least and greatest values, and how many are null. */
    private void put(List<BlockMetaData> blocks, StructType fields, List<String> within, ObjectNode[] parts) {
        for (StructField field : fields.fields()) {
            List<String> path = new ArrayList<>(within);
            path.add(field.name());
            if (field.dataType() instanceof StructType) {
                boolean isBounded = FooterValues.isBounded(field.dataType());
                ObjectNode[] inner = new ObjectNode[parts.length];
                for (int part = 0; part < parts.length; part++) {
                    // Delta has no bounds of a struct without a field that has some, and counts all the same.
                    boolean isThere = isBounded || part == NULLS;
                    inner[part] = isThere ? parts[part].putObject(field.name()) : JSON.createObjectNode();
                }
                put(blocks, (StructType) field.dataType(), path, inner);
                continue;
            }
            Bounds bounds = new Bounds(field.dataType());
            blocks.forEach(block -> bounds.add(chunk(block, path), block.getRowCount()));
            if (bounds.known && bounds.least != null) {
                FooterValues.put(parts[0], field.name(), field.dataType(), bounds.least, least);
                FooterValues.put(parts[1], field.name(), field.dataType(), bounds.greatest, greatest);
            }
            if (bounds.counted) {
                parts[NULLS].put(field.name(), bounds.nulls);
            }
        }
    }

    /** Null where the file does not have the column: a flow need not write all that its table has. */
    private static ColumnChunkMetaData chunk(BlockMetaData block, List<String> path) {
        return block.getColumns().stream()
                .filter(each -> Arrays.asList(each.getPath().toArray()).equals(path))
                .findFirst()
                .orElse(null);
    }

    /** The same file with statistics; by name, since versions of Delta differ in what else an action has. */
    private static AddFile with(AddFile file, String statistics) throws ReflectiveOperationException {
        Object[] parts = new Object[file.productArity()];
        Map<String, Integer> places = new HashMap<>();
        for (int place = 0; place < parts.length; place++) {
            parts[place] = file.productElement(place);
            places.put(file.productElementName(place), place);
        }
        parts[places.get("stats")] = statistics;
        for (Method method : AddFile.class.getMethods()) {
            if (method.getName().equals("copy") && method.getParameterCount() == parts.length) {
                return (AddFile) method.invoke(file, parts);
            }
        }
        throw new NoSuchMethodException("AddFile.copy");
    }

    /** What the chunks of one column hold together. */
    private static final class Bounds {
        private final DataType type;
        private boolean known;
        private boolean counted = true;
        private Comparable<Object> least;
        private Comparable<Object> greatest;
        private long nulls;

        private Bounds(DataType type) {
            this.type = type;
            this.known = FooterValues.isBounded(type);
        }

        private void add(ColumnChunkMetaData column, long rows) {
            if (column == null) {
                nulls += rows;
                return;
            }
            Statistics<?> chunk = column.getStatistics();
            counted &= chunk != null && chunk.isNumNullsSet();
            nulls += counted ? chunk.getNumNulls() : 0;
            if (!known) {
                return;
            }
            if (chunk == null || !chunk.hasNonNullValue()) {
                // A chunk without bounds has only nulls, or nothing is known of it.
                known = counted && chunk.getNumNulls() == column.getValueCount();
                return;
            }
            Comparable<Object> low = FooterValues.read(chunk.genericGetMin(), column.getPrimitiveType(), type);
            Comparable<Object> high = FooterValues.read(chunk.genericGetMax(), column.getPrimitiveType(), type);
            known = low != null;
            if (known) {
                least = least == null || low.compareTo(least) < 0 ? low : least;
                greatest = greatest == null || high.compareTo(greatest) > 0 ? high : greatest;
            }
        }
    }
}
