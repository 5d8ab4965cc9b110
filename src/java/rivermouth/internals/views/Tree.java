package rivermouth.internals.views;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;

import scala.jdk.javaapi.CollectionConverters;

/** An analysed query as plain values: what each node does, what it reads, and which columns it hands on. */
final class Tree {
    /** Columns that rows have besides the table's own when its changes are read. */
    private static final Set<String> OF_CHANGES = Set.of("_change_type", "_commit_version", "_commit_timestamp");

    private final Set<String> seenAsOfVersion;
    private int number;

    /** @param seenAsOfVersion paths of tables that the query itself reads at a version */
    Tree(Set<String> seenAsOfVersion) {
        this.seenAsOfVersion = seenAsOfVersion;
    }

    /** The node with those below it; they are numbered from the top, from left to right. */
    Map<String, Object> of(LogicalPlan plan) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("number", number++);
        told.put("op", plan.nodeName());
        List<Object> output = new ArrayList<>();
        for (Attribute each : CollectionConverters.asJava(plan.output())) {
            output.add(List.of(each.exprId().id(), each.name()));
        }
        told.put("output", output);
        Set<String> functions = new TreeSet<>();
        Set<String> unsure = new TreeSet<>();
        for (Expression each : CollectionConverters.asJava(plan.expressions())) {
            each.foreach(part -> {
                functions.add(part.getClass().getSimpleName().replace("$", ""));
                if (isUnsure(part)) {
                    unsure.add(part.prettyName());
                }
                return null;
            });
        }
        told.put("functions", functions);
        told.put("unsure", unsure);
        if (plan instanceof Project) {
            told.put("passes", passes(((Project) plan).projectList()));
        }
        if (plan instanceof Join) {
            told.put("join", ((Join) plan).joinType().sql());
        }
        List<Expression> keys = keys(plan);
        if (keys != null) {
            told.put("keys", told(keys, plan));
        }
        TahoeLogFileIndex index = DeltaLeaf.index(plan);
        if (index != null) {
            told.put("table", table(plan, index));
        }
        List<Object> children = new ArrayList<>();
        for (LogicalPlan each : CollectionConverters.asJava(plan.children())) {
            children.add(of(each));
        }
        told.put("children", children);
        List<Object> subqueries = new ArrayList<>();
        for (LogicalPlan each : CollectionConverters.asJava(plan.subqueries())) {
            // Nothing within is replaced: their numbers are none of those above.
            subqueries.add(new Tree(seenAsOfVersion).of(each));
        }
        told.put("subqueries", subqueries);
        return told;
    }

    /** What the rows of a node are grouped by, so that a row depends on those with its key alone; null if by nothing. */
    static List<Expression> keys(LogicalPlan plan) {
        if (plan instanceof Aggregate) {
            return CollectionConverters.asJava(((Aggregate) plan).groupingExpressions());
        }
        if (plan instanceof Window) {
            return CollectionConverters.asJava(((Window) plan).partitionSpec());
        }
        if (plan instanceof Deduplicate) {
            return new ArrayList<>(CollectionConverters.asJava(((Deduplicate) plan).keys()));
        }
        if (plan instanceof Distinct) {
            return new ArrayList<>(CollectionConverters.asJava(((Distinct) plan).child().output()));
        }
        return null;
    }

    private static List<Object> told(List<Expression> keys, LogicalPlan plan) {
        List<Object> found = new ArrayList<>();
        for (Expression key : keys) {
            List<Long> columns = new ArrayList<>();
            if (plan instanceof Aggregate) {
                for (NamedExpression each : CollectionConverters.asJava(((Aggregate) plan).aggregateExpressions())) {
                    Expression value = each instanceof Alias ? ((Alias) each).child() : (Expression) each;
                    if (value.semanticEquals(key)) {
                        columns.add(each.exprId().id());
                    }
                }
            } else if (key instanceof Attribute) {
                columns.add(((Attribute) key).exprId().id());
            }
            found.add(Map.of("sql", key.sql(), "type", key.dataType().catalogString(), "columns", columns));
        }
        return found;
    }

    private static List<Object> passes(scala.collection.immutable.Seq<NamedExpression> columns) {
        List<Object> found = new ArrayList<>();
        for (NamedExpression each : CollectionConverters.asJava(columns)) {
            Expression value = each instanceof Alias ? ((Alias) each).child() : (Expression) each;
            if (value instanceof Attribute) {
                found.add(List.of(each.exprId().id(), ((Attribute) value).exprId().id()));
            }
        }
        return found;
    }

    private Map<String, Object> table(LogicalPlan plan, TahoeLogFileIndex index) {
        Set<String> columns = new HashSet<>();
        for (String each : index.snapshotAtAnalysis().metadata().schema().fieldNames()) {
            columns.add(each.toLowerCase(java.util.Locale.ROOT));
        }
        // Filters are there where the folder of a partition is read.
        boolean plain = CollectionConverters.asJava(index.partitionFilters()).isEmpty();
        for (Attribute each : CollectionConverters.asJava(plan.output())) {
            String name = each.name().toLowerCase(java.util.Locale.ROOT);
            plain &= columns.contains(name) && !OF_CHANGES.contains(name);
        }
        String path = DeltaLeaf.path(index);
        return Map.of(
                "path", path,
                "version", DeltaLeaf.version(index),
                "id", index.snapshotAtAnalysis().metadata().id(),
                "fixed", seenAsOfVersion.contains(path + "@" + DeltaLeaf.version(index)),
                "plain", plain,
                "feed", "true".equals(CollectionConverters.asJava(
                        index.snapshotAtAnalysis().metadata().configuration()).get("delta.enableChangeDataFeed")));
    }

    /** Whether it says something else each time, itself and not by its parts; aggregates do so by the order of rows. */
    private static boolean isUnsure(Expression part) {
        boolean parts = CollectionConverters.asJava(part.children()).stream().allMatch(Expression::deterministic);
        return !part.deterministic() && parts && !(part instanceof AggregateFunction);
    }
}
