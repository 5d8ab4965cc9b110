package rivermouth.internals.plan;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ObjectType;

import scala.jdk.javaapi.CollectionConverters;

/** Queries as text. */
public final class PlanText {
    /** Options that name what a stream reads. */
    private static final List<String> NAMES =
            List.of("path", "subscribe", "subscribePattern", "assign", "stream", "streamName", "streamARN", "dbtable");
    /** Options that say where that is; their values may be secrets. */
    private static final List<String> HIDDEN =
            List.of("kafka.bootstrap.servers", "region", "endpointUrl", "url", "query");

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

    /**
     * The streams in the analysed query, in the order by which Spark numbers them: the format of each, and what names
     * its source.
     *
     * <p>Behind those whose texts are the same there is a number for options that are not shown.
     */
    public static List<String> streams(Dataset<Row> query) {
        Map<LogicalPlan, Stream> found = new LinkedHashMap<>();
        query.queryExecution().analyzed().foreach(plan -> {
            if (plan instanceof StreamingRelation) {
                DataSource source = ((StreamingRelation) plan).dataSource();
                found.putIfAbsent(plan, new Stream(source.className(), CollectionConverters.asJava(source.options())));
            } else if (plan instanceof StreamingRelationV2) {
                StreamingRelationV2 stream = (StreamingRelationV2) plan;
                found.putIfAbsent(plan, new Stream(stream.sourceName(), stream.extraOptions()));
            }
            return null;
        });
        List<String> shown = new ArrayList<>();
        found.values().forEach(each -> shown.add(each.text()));
        List<String> texts = new ArrayList<>();
        for (Stream each : found.values()) {
            String hidden = Collections.frequency(shown, each.text()) > 1 ? each.of(HIDDEN) : "";
            texts.add(hidden.isEmpty() ? each.text() : String.format("%s #%08x", each.text(), hidden.hashCode()));
        }
        return texts;
    }

    private record Stream(String format, Map<String, String> options) {
        String text() {
            return (format + " " + of(NAMES)).strip();
        }

        /** The values of these options that are there. */
        String of(List<String> names) {
            TreeMap<String, String> known = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
            known.putAll(options);
            return names.stream().filter(known::containsKey).map(known::get).collect(Collectors.joining(" "));
        }
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
