package rivermouth.internals.plan;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;

import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * The files of a table as they are when a query reads them.
 *
 * <p>Spark lists the files of a table once, when a query names it. All batches of a stream that is joined with the table
 * would read that list.
 */
public final class FreshFiles implements FileIndex {
    private static final String GONE = "static files are gone: ";

    private final FileIndex files;

    private FreshFiles(FileIndex files) {
        this.files = files;
    }

    /** The query, which lists the files of tables in each batch; the same query where it reads no such table. */
    public static Dataset<Row> inEachBatch(Dataset<Row> query) {
        LogicalPlan plan = query.queryExecution().analyzed();
        LogicalPlan fresh = plan.transformDownWithSubqueries(new Rewriting(FreshFiles::with));
        return fresh.fastEquals(plan) ? query : Dataset.ofRows((SparkSession) query.sparkSession(), fresh);
    }

    /** The node with files that are listed when it is run; null where it is no table of listed files. */
    private static LogicalPlan with(LogicalPlan plan) {
        if (!(plan instanceof LogicalRelation relation)
                || plan.isStreaming()
                || !(relation.relation() instanceof HadoopFsRelation table)
                || !(table.location() instanceof InMemoryFileIndex || table.location() instanceof CatalogFileIndex)) {
            return null;
        }
        return relation.copy(
                table.copy(
                        new FreshFiles(table.location()),
                        table.partitionSchema(),
                        table.dataSchema(),
                        table.bucketSpec(),
                        table.fileFormat(),
                        table.options(),
                        table.sparkSession()),
                relation.output(),
                relation.catalogTable(),
                relation.isStreaming(),
                relation.stream());
    }

    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        files.refresh();
        // Spark takes a folder that is gone for an empty one.
        Iterator<Path> roots = files.rootPaths().iterator();
        while (roots.hasNext()) {
            check(roots.next());
        }
        return files.listFiles(partitionFilters, dataFilters);
    }

    private static void check(Path root) {
        try {
            SparkSession session = (SparkSession) SparkSession.active();
            root.getFileSystem(session.sessionState().newHadoopConf()).getFileStatus(root);
        } catch (FileNotFoundException error) {
            throw new UncheckedIOException(GONE + Path.getPathWithoutSchemeAndAuthority(root), error);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public Seq<Path> rootPaths() {
        return files.rootPaths();
    }

    @Override
    public String[] inputFiles() {
        return files.inputFiles();
    }

    @Override
    public void refresh() {
        files.refresh();
    }

    @Override
    public long sizeInBytes() {
        return files.sizeInBytes();
    }

    @Override
    public StructType partitionSchema() {
        return files.partitionSchema();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FreshFiles fresh && fresh.files.equals(files);
    }

    @Override
    public int hashCode() {
        return files.hashCode();
    }

    @Override
    public String toString() {
        return files.toString();
    }
}
