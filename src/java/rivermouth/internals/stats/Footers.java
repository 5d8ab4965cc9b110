package rivermouth.internals.stats;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
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
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.spark.sql.delta.NoMapping$;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

import rivermouth.types.Limits;

/**
 * Delta's statistics of new files, from what the footers of the files know, instead of from every row.
 *
 * <p>Parquet's writer notes the least and the greatest value of each column and how many are null, whoever asks. Delta
 * works them out a second time, row by row, in an aggregation of its own. What comes out here is the same text.
 */
public final class Footers {
    private static final int THREADS = 16;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS");
    private static final List<DataType> KNOWN = Arrays.asList(
            DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType, DataTypes.DateType,
            DataTypes.TimestampType, DataTypes.TimestampNTZType);
    // Days and microseconds since 1970 of the years 1583 to 9999: no change of calendar, and four digits.
    private static final long FIRST_DAY = LocalDate.of(1583, 1, 1).toEpochDay();
    private static final long LAST_DAY = Limits.LAST_DAY;
    private static final long DAY_US = 86_400_000_000L;

    private Footers() {
    }

    /** Whether footers tell all that Delta's statistics of this table's new files hold. */
    public static boolean suffice(Snapshot snapshot) {
        return snapshot.metadata().columnMappingMode() == NoMapping$.MODULE$
                && Arrays.stream(snapshot.statCollectionPhysicalSchema().fields())
                        .allMatch(field -> KNOWN.contains(field.dataType()));
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
        StructField[] columns = snapshot.statCollectionPhysicalSchema().fields();
        boolean tight = snapshot.deletionVectorsSupported();
        List<Callable<Action>> tasks = new ArrayList<>();
        for (Action action : CollectionConverters.asJava(actions)) {
            tasks.add(() -> action instanceof AddFile ? told((AddFile) action, columns, tight, root, conf) : action);
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
    private static Action told(AddFile file, StructField[] columns, boolean tight, Path root, Configuration conf)
            throws IOException, ReflectiveOperationException {
        // The path in an action is a URI's: escaped, and relative to the table.
        Path path = new Path(root, new Path(URI.create(file.path())));
        FileStatus status = new FileStatus(file.size(), false, 1, file.size(), file.modificationTime(), path);
        List<BlockMetaData> blocks;
        // Without options of its own a reader would read Hadoop's settings from their files.
        ParquetReadOptions options = HadoopReadOptions.builder(conf).build();
        try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf), options)) {
            blocks = reader.getFooter().getBlocks();
        }
        return blocks.isEmpty() ? null : with(file, statistics(blocks, columns, tight));
    }

    private static String statistics(List<BlockMetaData> blocks, StructField[] columns, boolean tight) {
        ObjectNode told = JSON.createObjectNode();
        told.put("numRecords", blocks.stream().mapToLong(BlockMetaData::getRowCount).sum());
        ObjectNode least = told.putObject("minValues");
        ObjectNode greatest = told.putObject("maxValues");
        ObjectNode nulls = told.putObject("nullCount");
        for (StructField column : columns) {
            Bounds bounds = new Bounds();
            blocks.forEach(block -> bounds.add(chunk(block, column.name()), block.getRowCount(), column.dataType()));
            if (bounds.known && bounds.any) {
                put(least, column, bounds.least);
                put(greatest, column, bounds.greatest);
            }
            if (bounds.counted) {
                nulls.put(column.name(), bounds.nulls);
            }
        }
        if (tight) {
            told.put("tightBounds", true);
        }
        return told.toString();
    }

    /** Null where the file does not have the column: a flow need not write all that its table has. */
    private static ColumnChunkMetaData chunk(BlockMetaData block, String column) {
        return block.getColumns().stream()
                .filter(each -> each.getPath().size() == 1 && each.getPath().toArray()[0].equals(column))
                .findFirst()
                .orElse(null);
    }

    /** Whether the numbers of a chunk are what {@link #put} takes them for: a session may write times otherwise. */
    private static boolean isRead(PrimitiveType type, DataType wanted) {
        boolean whole = type.getPrimitiveTypeName() == PrimitiveTypeName.INT64
                || type.getPrimitiveTypeName() == PrimitiveTypeName.INT32;
        if (!wanted.equals(DataTypes.TimestampType) && !wanted.equals(DataTypes.TimestampNTZType)) {
            return whole;
        }
        return whole && type.getLogicalTypeAnnotation() instanceof TimestampLogicalTypeAnnotation
                && ((TimestampLogicalTypeAnnotation) type.getLogicalTypeAnnotation()).getUnit() == TimeUnit.MICROS;
    }

    /** As Delta writes it; left out where it has no writing, which only means that nobody can skip by it. */
    private static void put(ObjectNode values, StructField column, long value) {
        DataType type = column.dataType();
        if (type.equals(DataTypes.DateType)) {
            if (value >= FIRST_DAY && value <= LAST_DAY) {
                values.put(column.name(), LocalDate.ofEpochDay(value).toString());
            }
        } else if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
            long day = Math.floorDiv(value, DAY_US);
            if (day >= FIRST_DAY && day <= LAST_DAY) {
                String zone = type.equals(DataTypes.TimestampType) ? "Z" : "";
                values.put(column.name(), TIME.format(Instant.EPOCH.plus(value, ChronoUnit.MICROS).atOffset(ZoneOffset.UTC)) + zone);
            }
        } else {
            values.put(column.name(), value);
        }
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
        private boolean known = true;
        private boolean counted = true;
        private boolean any;
        private long least;
        private long greatest;
        private long nulls;

        private void add(ColumnChunkMetaData column, long rows, DataType type) {
            if (column == null) {
                nulls += rows;
                return;
            }
            Statistics<?> chunk = column.getStatistics();
            counted &= chunk != null && chunk.isNumNullsSet();
            nulls += counted ? chunk.getNumNulls() : 0;
            if (chunk != null && chunk.hasNonNullValue() && isRead(column.getPrimitiveType(), type)) {
                long low = ((Number) chunk.genericGetMin()).longValue();
                long high = ((Number) chunk.genericGetMax()).longValue();
                least = any ? Math.min(least, low) : low;
                greatest = any ? Math.max(greatest, high) : high;
                any = true;
            } else {
                // A chunk without bounds is one of nulls alone, or one of which nothing is known.
                known &= counted && chunk.getNumNulls() == column.getValueCount();
            }
        }
    }
}
