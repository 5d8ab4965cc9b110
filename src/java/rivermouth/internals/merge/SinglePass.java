package rivermouth.internals.merge;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.collect_list;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaConfigs$;
import org.apache.spark.sql.delta.DeltaErrors$;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaLog$;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.RowTracking$;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.VersionChecksum;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.FileAction;
import org.apache.spark.sql.delta.actions.RemoveFile;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.delta.commands.DMLWithDeletionVectorsHelper$;
import org.apache.spark.sql.delta.commands.DeletionVectorBitmapGenerator$;
import org.apache.spark.sql.delta.commands.DeletionVectorResult;
import org.apache.spark.sql.delta.commands.DeletionVectorUtils$;
import org.apache.spark.sql.delta.commands.TouchedFileWithDV;
import org.apache.spark.sql.delta.files.TahoeBatchFileIndex;
import org.apache.spark.sql.delta.stats.StatsCollectionUtils$;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A MERGE in Delta's own steps that reads the table once, where Delta's command reads it three times: for the files, for
 * the rows and for where these lie.
 *
 * <p>In this order: {@link #rows}, {@link #gone}, {@link #written}, {@link #commit}. Nothing is the table's before the
 * last.
 */
public final class SinglePass {
    private static final String FILE = "_metadata.file_path";
    private static final String ROW = "_metadata.row_index";
    /** Those of a MERGE that Delta asks for, whether or not something is to be told. */
    private static final List<String> METRICS = List.of(
            "numTargetFilesAdded",
            "numTargetFilesRemoved",
            "numTargetBytesAdded",
            "numTargetBytesRemoved",
            "numTargetRowsCopied",
            "numTargetDeletionVectorsAdded",
            "numTargetDeletionVectorsRemoved",
            "numTargetDeletionVectorsUpdated");
    private static final DMLWithDeletionVectorsHelper$ VECTORS = DMLWithDeletionVectorsHelper$.MODULE$;

    private final SparkSession spark;
    private final OptimisticTransaction transaction;
    private final long began = System.nanoTime();
    private final List<Action> actions = new ArrayList<>();
    private final Map<String, Long> told = new HashMap<>();
    private Seq<AddFile> candidates;
    private boolean listed;
    private boolean byEach;

    /** Begins a transaction at the table's newest version. */
    public SinglePass(SparkSession spark, String location) {
        this.spark = spark;
        for (String name : METRICS) {
            told.put(name, 0L);
        }
        // Delta takes its settings, an entry of the ledger among them, from the thread's session.
        SparkSession.setActiveSession(spark);
        this.transaction = DeltaLog$.MODULE$.forTable(spark, location).startTransaction(Option.empty(), Option.empty());
    }

    /** Whether the table's rows are marked as gone by deletion vectors, and nothing else is kept with a change. */
    public boolean allowed() {
        return DeletionVectorUtils$.MODULE$.deletionVectorsWritable(transaction.protocol(), transaction.metadata())
                && !(Boolean) DeltaConfigs$.MODULE$.CHANGE_DATA_FEED().fromMetaData(transaction.metadata())
                && !RowTracking$.MODULE$.isEnabled(transaction.protocol(), transaction.metadata());
    }

    /** Whether rows have the table's columns, in its order and of its types. */
    public boolean takes(Dataset<Row> rows) {
        StructField[] wanted = transaction.metadata().schema().fields();
        StructField[] found = rows.schema().fields();
        if (wanted.length != found.length) {
            return false;
        }
        for (int i = 0; i < wanted.length; i++) {
            if (!wanted[i].name().equals(found[i].name())
                    || !DataType$.MODULE$.equalsIgnoreNullability(wanted[i].dataType(), found[i].dataType())) {
                return false;
            }
        }
        return true;
    }

    /** The table's columns, in their order. */
    public String[] columns() {
        return transaction.metadata().schema().fieldNames();
    }

    /** The columns by which the table is partitioned. */
    public List<String> partitionedBy() {
        return CollectionConverters.asJava(transaction.metadata().partitionColumns());
    }

    /** Whether the table has this transaction already; if it gets it meanwhile, the commit is refused. */
    public boolean done(String application, long version) {
        Option<VersionChecksum> checksum = transaction.snapshot().checksumOpt();
        if (checksum.isEmpty() || checksum.get().setTransactions().isEmpty()) {
            return transaction.txnVersion(application) >= version;
        }
        transaction.readTxn().append(application);
        for (SetTransaction each : CollectionConverters.asJava(checksum.get().setTransactions().get())) {
            if (each.appId().equals(application)) {
                return each.version() >= version;
            }
        }
        return false;
    }

    /**
     * The rows of the files that may have one within these bounds, and where each lies.
     *
     * @param within over the table's columns under the name t
     * @param ranges the same, as far as it is between two values
     * @param changes what lies in the ranges: where the files of these are more than one and large, they are skipped by
     *     each of the values that changes have
     * @param largeBytes from which size on files are large, together
     * @param file the name of a column for the path of the row's file
     * @param row the name of a column for its number in that
     */
    public Dataset<Row> rows(
            Column within, List<Range> ranges, Dataset<Row> changes, long largeBytes, String file, String row) {
        DeltaLog log = transaction.deltaLog();
        Snapshot snapshot = transaction.snapshot();
        Dataset<Row> table = spark.baseRelationToDataFrame(
                log.createRelation(scalaSeq(List.of()), Option.apply(snapshot), Option.empty(), false));
        Seq<Expression> filters = scalaSeq(List.of(bounds(table, within)));
        List<ChecksumFiles> known = ChecksumFiles.of(snapshot);
        listed = known != null;
        if (listed) {
            candidates = scalaSeq(ChecksumFiles.files(wanted(known, ranges, changes, largeBytes)));
            transaction.trackReadPredicates(filters, false, true);
            transaction.trackFilesRead(candidates);
        } else {
            candidates = transaction.filterFiles(filters, true);
        }
        TahoeBatchFileIndex files =
                new TahoeBatchFileIndex(spark, "merge", candidates, log, log.dataPath(), snapshot, false);
        LogicalPlan plan = table.queryExecution().analyzed();
        Dataset<Row> scan = (Dataset<Row>) VECTORS.createTargetDfForScanningForMatches(spark, plan, files);
        List<Column> columns = new ArrayList<>();
        for (String name : table.columns()) {
            columns.add(col("`" + name.replace("`", "``") + "`"));
        }
        columns.add(col(FILE).as(file));
        columns.add(col(ROW).as(row));
        return scan.select(columns.toArray(Column[]::new));
    }

    private List<ChecksumFiles> wanted(
            List<ChecksumFiles> known, List<Range> ranges, Dataset<Row> changes, long largeBytes) {
        StructType schema = transaction.metadata().schema();
        List<ChecksumFiles> between = ChecksumFiles.within(known, schema, ranges);
        if (ranges.isEmpty() || between.size() < 2 || ChecksumFiles.bytes(between) < largeBytes) {
            return between;
        }
        byEach = true;
        return ChecksumFiles.with(between, schema, Values.of(changes, ranges));
    }

    /** Whether files were skipped by each value, and not by the least and the greatest only. */
    public boolean byEach() {
        return byEach;
    }

    /** Of how many files {@link #rows} are. */
    public int filesRead() {
        return CollectionConverters.asJava(candidates).size();
    }

    /** Their size. */
    public long bytesRead() {
        long bytes = 0;
        for (AddFile each : CollectionConverters.asJava(candidates)) {
            bytes += each.size();
        }
        return bytes;
    }

    /** How many files the table has. */
    public long files() {
        Option<VersionChecksum> checksum = transaction.snapshot().checksumOpt();
        return checksum.isEmpty() ? transaction.snapshot().numOfFiles() : checksum.get().numFiles();
    }

    private static Expression bounds(Dataset<Row> table, Column within) {
        LogicalPlan plan = table.as("t").filter(within).queryExecution().analyzed();
        return ((Filter) plan).condition();
    }

    /**
     * Marks rows as deleted.
     *
     * @param where the two columns of {@code rows} that say where each lies
     * @param number of how many rows
     */
    public void gone(Dataset<Row> where, String file, String row, long number) {
        List<TouchedFileWithDV> touched = listed ? marked(where, file, row) : markedByTasks(where, file, row);
        long marked = 0;
        for (TouchedFileWithDV each : touched) {
            marked += each.numberOfModifiedRows();
        }
        if (marked != number) {
            sneak(DeltaErrors$.MODULE$.multipleSourceRowMatchingTargetRowInMergeException(spark));
        }
        for (TouchedFileWithDV each : touched) {
            tell(each);
        }
        if (listed) {
            for (TouchedFileWithDV each : touched) {
                replaced(each);
            }
            return;
        }
        int prefix = StatsCollectionUtils$.MODULE$.getDataSkippingStringPrefixLength(spark, transaction.metadata());
        Tuple2<Seq<FileAction>, ?> done =
                VECTORS.processUnmodifiedData(spark, scalaSeq(touched), transaction.snapshot(), prefix);
        actions.addAll(CollectionConverters.asJava(done._1()));
    }

    private List<TouchedFileWithDV> marked(Dataset<Row> where, String file, String row) {
        List<Row> byFile =
                where.coalesce(1).groupBy(col(file)).agg(collect_list(col(row))).collectAsList();
        return DeletionVectorWriter.written(transaction, byName(), byFile);
    }

    private List<TouchedFileWithDV> markedByTasks(Dataset<Row> where, String file, String row) {
        Seq<DeletionVectorResult> marks = DeletionVectorBitmapGenerator$.MODULE$
                .buildRowIndexSetsForFilesMatchingCondition(
                        spark,
                        transaction,
                        true,
                        where,
                        candidates,
                        Literal$.MODULE$.TrueLiteral(),
                        Option.apply(col(file)),
                        Option.apply(col(row)));
        return CollectionConverters.asJava(VECTORS.findFilesWithMatchingRows(transaction, byName(), marks));
    }

    private scala.collection.immutable.Map<String, AddFile> byName() {
        return VECTORS.generateCandidateFileMap(transaction.deltaLog().dataPath(), candidates);
    }

    private void tell(TouchedFileWithDV each) {
        AddFile file = each.fileLogEntry();
        boolean whole = each.isFullyReplaced();
        boolean first = file.deletionVector() == null;
        if (whole) {
            told.merge("numTargetFilesRemoved", 1L, Long::sum);
            told.merge("numTargetBytesRemoved", file.size(), Long::sum);
        }
        if (!(whole && first)) {
            String kind = whole ? "Removed" : first ? "Added" : "Updated";
            told.merge("numTargetDeletionVectors" + kind, 1L, Long::sum);
        }
    }

    private void replaced(TouchedFileWithDV each) {
        if (each.isFullyReplaced()) {
            actions.add(each.fileLogEntry().removeWithTimestamp(System.currentTimeMillis(), true));
            return;
        }
        Tuple2<AddFile, RemoveFile> both = each.fileLogEntry().removeRows(each.newDeletionVector(), true, true);
        actions.add(both._1());
        actions.add(both._2());
    }

    /** Writes rows, in the table's columns and types; says how many. */
    public long written(Dataset<Row> rows) {
        long number = 0;
        long bytes = 0;
        long files = 0;
        for (FileAction each : CollectionConverters.asJava(transaction.writeFiles(rows))) {
            actions.add(each);
            AddFile file = (AddFile) each;
            files++;
            bytes += file.size();
            number += (Long) file.numPhysicalRecords().get();
        }
        told.put("numTargetFilesAdded", files);
        told.put("numTargetBytesAdded", bytes);
        return number;
    }

    /**
     * Commits what was marked and written.
     *
     * @param counts more of the operation's metrics, by Delta's name for them
     */
    public void commit(String application, long version, Map<String, Number> counts) {
        counts.forEach((name, number) -> told.put(name, number.longValue()));
        told.put("executionTimeMs", (System.nanoTime() - began) / 1_000_000);
        Map<String, SQLMetric> metrics = new HashMap<>();
        for (Map.Entry<String, Long> each : told.entrySet()) {
            SQLMetric metric = SQLMetrics$.MODULE$.createMetric(spark.sparkContext(), each.getKey());
            metric.set(each.getValue());
            metrics.put(each.getKey(), metric);
        }
        transaction.registerSQLMetrics(
                spark, scala.collection.immutable.Map.from(CollectionConverters.asScala(metrics)));
        actions.add(new SetTransaction(application, version, Option.apply(System.currentTimeMillis())));
        DeltaOperations.Merge what = new DeltaOperations.Merge(
                Option.empty(), Option.empty(), Option.empty(), Option.empty(),
                scalaSeq(List.of()), scalaSeq(List.of()), scalaSeq(List.of()));
        transaction.commit(scalaSeq(actions), what);
    }

    private static <T> Seq<T> scalaSeq(List<T> list) {
        return scala.collection.immutable.List.from(CollectionConverters.asScala(list));
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> void sneak(Throwable failure) throws T {
        throw (T) failure;
    }
}
