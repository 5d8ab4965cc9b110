package rivermouth.internals.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD$;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;

import scala.Option;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** A part of a streaming query: over the rows of the batch that it carries now, or with other rows in its place. */
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

    /**
     * A streaming query as a batch: with other rows in the place of what is below an alias, and none of other streams.
     *
     * @param rows have the columns of what they stand for, in its order and types
     */
    public static Dataset<Row> over(Dataset<Row> query, String alias, Dataset<Row> rows, SparkSession session) {
        LogicalPlan plan = new InlineCTE(true, false).apply(query.queryExecution().analyzed());
        return Dataset.ofRows(session, replaced(plan, alias, rows.queryExecution().analyzed()));
    }

    private static LogicalPlan replaced(LogicalPlan node, String alias, LogicalPlan rows) {
        List<LogicalPlan> children = new ArrayList<>();
        for (LogicalPlan each : CollectionConverters.asJava(node.children())) {
            children.add(isAliased(node, alias) ? renamed(each, rows) : replaced(each, alias, rows));
        }
        if (children.isEmpty() && node.isStreaming()) {
            return new LocalRelation(node.output(), sequence(new InternalRow[0]), false, Option.empty());
        }
        return node.withNewChildren(sequence(children.toArray(new LogicalPlan[0])));
    }

    /** The rows with the identities by which the query knows the columns. */
    private static LogicalPlan renamed(LogicalPlan known, LogicalPlan rows) {
        List<NamedExpression> columns = new ArrayList<>();
        List<Attribute> found = CollectionConverters.asJava(rows.output());
        for (Attribute each : CollectionConverters.asJava(known.output())) {
            columns.add(new Alias(found.get(columns.size()), each.name(), each.exprId(), sequence(new String[0]),
                    Option.empty(), sequence(new String[0])));
        }
        return new Project(sequence(columns.toArray(new NamedExpression[0])), rows);
    }

    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T[] items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }

    private static boolean isAliased(LogicalPlan node, String alias) {
        return node instanceof SubqueryAlias found && found.alias().equals(alias);
    }
}
