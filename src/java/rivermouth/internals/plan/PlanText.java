package rivermouth.internals.plan;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ObjectType;

import scala.jdk.javaapi.CollectionConverters;

/** Queries as text. */
public final class PlanText {
    private PlanText() {}

    /**
     * The analysed query, whole.
     *
     * <p>Spark cuts texts of plans as the settings of the thread say. They are changed here for this thread alone, so
     * that queries of one session can be written down side by side.
     */
    public static String whole(Dataset<Row> query) {
        SQLConf conf = query.sparkSession().sessionState().conf().clone();
        conf.setConfString("spark.sql.debug.maxToStringFields", String.valueOf(Integer.MAX_VALUE));
        conf.setConfString("spark.sql.maxPlanStringLength", String.valueOf(Integer.MAX_VALUE - 15));
        return SQLConf.withExistingConf(conf, () -> query.queryExecution().analyzed().toString());
    }

    /** The constants in the analysed query with their types, in its order: its text has strings without quotes. */
    public static String constants(Dataset<Row> query) {
        StringBuilder found = new StringBuilder();
        constants(query.queryExecution().analyzed(), found);
        return found.toString();
    }

    /** The streams in the analysed query, in the order by which Spark numbers them: what each is, and its path. */
    public static List<String> streams(Dataset<Row> query) {
        Map<LogicalPlan, String> found = new LinkedHashMap<>();
        query.queryExecution().analyzed().foreach(plan -> {
            if (plan instanceof StreamingRelation) {
                StreamingRelation stream = (StreamingRelation) plan;
                String path = CollectionConverters.asJava(stream.dataSource().options()).getOrDefault("path", "");
                found.putIfAbsent(plan, String.format("%s %s", stream.dataSource().className(), path).strip());
            } else if (plan instanceof StreamingRelationV2) {
                found.putIfAbsent(plan, ((StreamingRelationV2) plan).sourceName());
            }
            return null;
        });
        return new ArrayList<>(found.values());
    }

    private static void constants(LogicalPlan plan, StringBuilder found) {
        for (Expression each : CollectionConverters.asJava(plan.expressions())) {
            each.foreach(part -> {
                // Objects of Java are shown by their addresses.
                if (part instanceof Literal && !(part.dataType() instanceof ObjectType)) {
                    found.append(part.dataType().catalogString()).append(' ').append(part.sql()).append('\n');
                }
                return null;
            });
        }
        for (LogicalPlan each : CollectionConverters.asJava(plan.children())) {
            constants(each, found);
        }
        for (LogicalPlan each : CollectionConverters.asJava(plan.subqueries())) {
            constants(each, found);
        }
    }
}
