package rivermouth.internals.parted;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.ParquetProperties;
import org.apache.parquet.hadoop.ParquetOutputFormat;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaLog$;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.Action$;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.delta.constraints.Constraints$;
import org.apache.spark.sql.delta.files.DeltaFileFormatWriter$;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileFormatWriter;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.VariantType;

import rivermouth.internals.stats.Footers;

import scala.Function0;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of many tables, written by one job: each file lies in the folder of its table, and no version names it before
 * that table's own {@link #commit}.
 */
public final class PartedFiles {
    private static final int LEAST_DICTIONARY_BYTES = 16 * 1024;
    // Of these, what asks for more than a file (constraints, generated columns, mapped names) is looked at by itself.
    private static final Set<String> FEATURES = Set.of(
            "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping",
            "identityColumns", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
            "vacuumProtocolCheck");
    private static final Set<String> PROPERTIES = Set.of(
            "delta.appendOnly", "delta.checkpointInterval", "delta.checkpointPolicy", "delta.dataSkippingNumIndexedCols",
            "delta.dataSkippingStatsColumns", "delta.deletedFileRetentionDuration", "delta.enableChangeDataFeed",
            "delta.enableDeletionVectors", "delta.enableTypeWidening", "delta.logRetentionDuration");
    // Of a session, about the files that Delta's writer makes.
    private static final List<String> SETTINGS = List.of(
            "spark.databricks.delta.autoCompact.enabled", "spark.databricks.delta.optimizeWrite.enabled",
            "spark.databricks.delta.stats.collect");

    private final List<List<Folders.New>> files = new ArrayList<>();

    private PartedFiles(List<String> folders, List<Folders.New> written) {
        folders.forEach(each -> files.add(new ArrayList<>()));
        written.forEach(each -> files.get(each.folder).add(each));
    }

    /**
     * Whether rows of these columns can be added to a table at this version by a file and a commit, and nothing else.
     *
     * <p>What a table asks for that is not known here is more than that.
     *
     * @param rows in the table's columns
     */
    public static boolean takes(SparkSession spark, String folder, long version, Dataset<Row> rows) {
        SparkSession.setActiveSession(spark);
        Snapshot snapshot = DeltaLog$.MODULE$.forTable(spark, folder).unsafeVolatileSnapshot();
        return snapshot.version() == version
                && CollectionConverters.asJava(snapshot.metadata().partitionColumns()).isEmpty()
                && Footers.suffice(snapshot)
                && CollectionConverters.asJava(Constraints$.MODULE$.getAll(snapshot.metadata(), spark)).isEmpty()
                && CollectionConverters.asJava(snapshot.protocol().implicitlyAndExplicitlySupportedFeatures()).stream()
                        .allMatch(each -> FEATURES.contains(each.name()))
                && CollectionConverters.asJava(snapshot.metadata().configuration()).keySet().stream()
                        .allMatch(PartedFiles::isOfNoFile)
                && SETTINGS.stream().noneMatch(each -> spark.sessionState().conf().contains(each))
                && fits(snapshot.metadata().schema().fields(), rows.schema().fields());
    }

    /** Whether a property of a table says nothing about how a file of new rows is written. */
    private static boolean isOfNoFile(String property) {
        return PROPERTIES.contains(property) || property.startsWith("rivermouth.") || property.indexOf('.') < 0;
    }

    private static boolean fits(StructField[] wanted, StructField[] found) {
        if (wanted.length != found.length) {
            return false;
        }
        for (int i = 0; i < wanted.length; i++) {
            if (!wanted[i].name().equals(found[i].name())
                    || !wanted[i].nullable()
                    || !DataType$.MODULE$.equalsIgnoreNullability(wanted[i].dataType(), found[i].dataType())
                    // How these lie in a file, a table says.
                    || wanted[i].dataType().existsRecursively(each -> each instanceof VariantType)
                    // One that Delta fills in, or holds to something, says so here.
                    || wanted[i].metadata().json().contains("delta.")
                    || wanted[i].metadata().contains("CURRENT_DEFAULT")) {
                return false;
            }
        }
        return true;
    }

    /**
     * Writes rows into the folders of their tables.
     *
     * @param rows in the tables' columns, and one more
     * @param column that one: the number of the row's table, an int and never null
     * @param folders of the tables
     */
    public static PartedFiles written(Dataset<Row> rows, String column, List<String> folders) {
        SparkSession spark = rows.sparkSession();
        SparkSession.setActiveSession(spark);
        QueryExecution query = rows.queryExecution();
        Folders protocol = new Folders(column, folders);
        Configuration conf = spark.sessionState().newHadoopConf();
        int all = conf.getInt(ParquetOutputFormat.DICTIONARY_PAGE_SIZE, ParquetProperties.DEFAULT_DICTIONARY_PAGE_SIZE);
        // Of many small files each would gather the values of a column in vain for longer than one large one.
        conf.setInt(ParquetOutputFormat.DICTIONARY_PAGE_SIZE, Math.max(all / folders.size(), LEAST_DICTIONARY_BYTES));
        Function0<Object> job = () -> {
            SparkPlan plan = query.executedPlan();
            Seq<Attribute> output = plan.output();
            List<Attribute> number = new ArrayList<>();
            for (Attribute each : CollectionConverters.asJava(output)) {
                if (each.name().equals(column)) {
                    number.add(each);
                }
            }
            return DeltaFileFormatWriter$.MODULE$.write(
                    spark,
                    plan,
                    new ParquetFileFormat(),
                    protocol,
                    new FileFormatWriter.OutputSpec(folders.get(0), scala.collection.immutable.Map$.MODULE$.empty(), output),
                    conf,
                    scalaSeq(number),
                    Option.empty(),
                    scalaSeq(List.of()),
                    scala.collection.immutable.Map$.MODULE$.empty(),
                    0);
        };
        SQLExecution$.MODULE$.withNewExecutionId(query, Option.empty(), job);
        return new PartedFiles(folders, protocol.done());
    }

    /**
     * Adds the files of one table in one commit; false, and nothing done, if it has another version or id by now.
     *
     * @param number of the table
     * @param table Delta's id of it
     * @param onto the version at which the table is known not to have this transaction
     */
    public boolean commit(
            SparkSession spark,
            String folder,
            int number,
            String table,
            long onto,
            String application,
            long version,
            String metadata)
            throws IOException, InterruptedException {
        SparkSession.setActiveSession(spark);
        OptimisticTransaction transaction =
                DeltaLog$.MODULE$.forTable(spark, folder).startTransaction(Option.empty(), Option.empty());
        // Another table at this place might have come as far.
        if (transaction.readVersion() != onto || !transaction.snapshot().metadata().id().equals(table)) {
            return false;
        }
        // As if the number had been looked for: a commit with one of this application that comes first is a conflict.
        transaction.readTxn().append(application);
        Snapshot snapshot = transaction.snapshot();
        Seq<Action> added = Footers.told(
                actions(number), snapshot, new Path(folder), spark.sessionState().newHadoopConf());
        List<Action> actions = new ArrayList<>(CollectionConverters.asJava(added));
        register(spark, transaction, actions);
        actions.add(new SetTransaction(application, version, Option.apply(System.currentTimeMillis())));
        transaction.commit(scalaSeq(actions), new DeltaOperations.Write(
                SaveMode.Append, Option.apply(scalaSeq(List.of())), Option.empty(), Option.apply(metadata),
                Option.empty(), Option.empty(), Option.empty(), Option.empty(), Option.empty()));
        return true;
    }

    private Seq<Action> actions(int number) {
        List<Action> found = new ArrayList<>();
        for (Folders.New each : files.get(number)) {
            // Versions of Delta differ in what else an action has.
            found.add(Action$.MODULE$.fromJson(String.format(
                    "{\"add\":{\"path\":\"%s\",\"partitionValues\":{},\"size\":%d,\"modificationTime\":%d,\"dataChange\":true}}",
                    each.name, each.bytes, each.writtenAt)));
        }
        return scalaSeq(found);
    }

    private static void register(SparkSession spark, OptimisticTransaction transaction, List<Action> added) {
        long bytes = 0;
        long rows = 0;
        for (Action each : added) {
            bytes += ((AddFile) each).size();
            rows += (Long) ((AddFile) each).numPhysicalRecords().get();
        }
        Map<String, SQLMetric> metrics = new HashMap<>();
        Map.of("numFiles", (long) added.size(), "numOutputBytes", bytes, "numOutputRows", rows).forEach((name, value) -> {
            SQLMetric metric = SQLMetrics$.MODULE$.createMetric(spark.sparkContext(), name);
            metric.set(value);
            metrics.put(name, metric);
        });
        transaction.registerSQLMetrics(
                spark, scala.collection.immutable.Map.from(CollectionConverters.asScala(metrics)));
    }

    private static <T> Seq<T> scalaSeq(List<T> list) {
        return scala.collection.immutable.List.from(CollectionConverters.asScala(list));
    }
}
