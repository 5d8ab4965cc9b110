package rivermouth.internals.plan;

import java.util.concurrent.atomic.AtomicInteger;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD$;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;

import scala.Option;
import scala.runtime.BoxedUnit;

/** A part of a streaming query, over the rows of the batch that it carries now. */
public final class BatchPart {
    private BatchPart() {}

    /** How many parts of a query have the alias. */
    public static int count(Dataset<Row> query, String alias) {
        AtomicInteger found = new AtomicInteger();
        query.queryExecution().analyzed().foreach(node -> {
            if (isAliased(node, alias)) {
                found.incrementAndGet();
            }
            return BoxedUnit.UNIT;
        });
        return found.get();
    }

    /**
     * What is below an alias, as rows that any query can read; null where the query has no such alias.
     *
     * <p>Spark checks that the parts of a stream are run by a stream; the session must have that check off.
     */
    public static Dataset<Row> of(StreamingQuery query, String alias, SparkSession session) {
        LogicalPlan batch = ((StreamingQueryWrapper) query).streamingQuery().lastExecution().logical();
        Option<LogicalPlan> found = batch.find(node -> isAliased(node, alias));
        if (found.isEmpty()) {
            return null;
        }
        Dataset<Row> part = Dataset.ofRows(session, ((SubqueryAlias) found.get()).child());
        return Dataset.ofRows(session, LogicalRDD$.MODULE$.fromDataset(part.queryExecution().toRdd(), part, false));
    }

    private static boolean isAliased(LogicalPlan node, String alias) {
        return node instanceof SubqueryAlias found && found.alias().equals(alias);
    }
}
