package rivermouth.internals.plan;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;

import scala.jdk.javaapi.CollectionConverters;

/**
 * Streams of Delta tables that begin with the first commit of a table.
 *
 * <p>Others begin with the files that the table has when the query starts. Delta lists these with Spark jobs.
 */
public final class FirstVersion {
    private static final String PATH = "path";
    /** Options that change nothing about which rows a stream reads. */
    private static final Set<String> NEUTRAL = Set.of(PATH, "maxfilespertrigger", "maxbytespertrigger");

    private FirstVersion() {}

    /** The folders of the tables that the query reads as streams, without an option that says what is read of them. */
    public static List<String> plainTables(Dataset<Row> query) {
        List<String> found = new ArrayList<>();
        query.queryExecution().analyzed().foreach(plan -> {
            DataSource source = plainTable(plan);
            if (source != null) {
                found.add(folder(source));
            }
            return null;
        });
        return found;
    }

    /** The query, which reads these tables from their first commit on. */
    public static Dataset<Row> of(Dataset<Row> query, List<String> folders) {
        Rewriting beginning = new Rewriting(plan -> {
            DataSource source = plainTable(plan);
            return source != null && folders.contains(folder(source)) ? beginning((StreamingRelation) plan) : null;
        });
        LogicalPlan plan = query.queryExecution().analyzed().transformDown(beginning);
        return Dataset.ofRows((SparkSession) query.sparkSession(), plan);
    }

    /** The source of a node that is such a stream; null of any other node. */
    private static DataSource plainTable(LogicalPlan plan) {
        if (!(plan instanceof StreamingRelation relation) || !relation.dataSource().className().equals("delta")) {
            return null;
        }
        boolean neutral = CollectionConverters.asJava(relation.dataSource().options()).keySet().stream()
                .allMatch(name -> NEUTRAL.contains(name.toLowerCase(Locale.ROOT)));
        return neutral && folder(relation.dataSource()) != null ? relation.dataSource() : null;
    }

    private static String folder(DataSource source) {
        return CollectionConverters.asJava(source.options()).get(PATH);
    }

    private static LogicalPlan beginning(StreamingRelation relation) {
        DataSource source = relation.dataSource();
        Map<String, String> options = new HashMap<>(CollectionConverters.asJava(source.options()));
        options.put("startingVersion", "0");
        return relation.copy(
                source.copy(
                        source.sparkSession(),
                        source.className(),
                        source.paths(),
                        source.userSpecifiedSchema(),
                        source.partitionColumns(),
                        source.bucketSpec(),
                        scala.collection.immutable.Map.from(CollectionConverters.asScala(options)),
                        source.catalogTable(),
                        source.userSpecifiedStreamingSourceName()),
                relation.sourceName(),
                relation.output(),
                relation.sourceIdentifyingName());
    }
}
