package rivermouth.internals.views;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;

import scala.jdk.javaapi.CollectionConverters;

/** An analysed query as plain values: what each node does, what it reads, and which columns it hands on. */
final class Tree {
    /** Columns that rows have besides the table's own when its changes are read. */
    private static final Set<String> OF_CHANGES = Set.of("_change_type", "_commit_version", "_commit_timestamp");

    /** Among the functions of a node: it makes a date or a time of a word for one, which is another one each day. */
    private static final String TIME_OF_TEXT = "CurrentTimeOfText";
    private static final Set<DataType> OF_TIME =
            Set.of(DataTypes.DateType, DataTypes.TimestampType, DataTypes.TimestampNTZType);

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
            look(each, functions, unsure);
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

    /** Finds the functions of an expression, and those of what Spark puts in their place before it runs the query. */
    private static void look(Expression expression, Set<String> functions, Set<String> unsure) {
        expression.foreach(part -> {
            functions.add(part.getClass().getSimpleName().replace("$", ""));
            if (namesTime(part)) {
                functions.add(TIME_OF_TEXT);
            }
            if (isUnsure(part)) {
                unsure.add(part.prettyName());
            } else if (part instanceof RuntimeReplaceable && !(part instanceof InheritAnalysisRules)) {
                look(((RuntimeReplaceable) part).replacement(), functions, unsure);
            }
            return null;
        });
    }

    /**
     * Whether it makes a date or a time of a word such as {@code 'today'}.
     *
     * <p>Spark puts the value of the moment in its place when it optimises the query. The text of the word is the same
     * in the analysed query at any time.
     */
    private static boolean namesTime(Expression part) {
        if (!(part instanceof Cast) || !OF_TIME.contains(part.dataType())) {
            return false;
        }
        Cast cast = (Cast) part;
        if (!(cast.child().dataType() instanceof StringType) || !cast.child().references().isEmpty()) {
            return false;
        }
        try {
            Expression child = replaced(cast.child());
            Object text = child.foldable() ? child.eval(null) : null;
            return text != null
                    && DateTimeUtils.convertSpecialTimestamp(text.toString(), cast.zoneId()).isDefined()
                    && !text.toString().strip().toLowerCase(Locale.ROOT).startsWith("epoch");
        } catch (Exception error) {
            return true;  // it is not known what it says
        }
    }

    /** The expression as Spark runs it. */
    private static Expression replaced(Expression expression) {
        return expression instanceof RuntimeReplaceable
                ? replaced(((RuntimeReplaceable) expression).replacement())
                : (Expression) expression.mapChildren(each -> replaced((Expression) each));
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
            columns.add(each.toLowerCase(Locale.ROOT));
        }
        // Filters are there where the folder of a partition is read.
        boolean plain = CollectionConverters.asJava(index.partitionFilters()).isEmpty();
        for (Attribute each : CollectionConverters.asJava(plan.output())) {
            String name = each.name().toLowerCase(Locale.ROOT);
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
