package rivermouth.internals.views;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.commands.cdc.CDCReader$;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;

import scala.Option;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The query of a materialized view at one version of each Delta table that it reads, and parts of it: over rows that
 * changed, or for some of its groups.
 */
public final class ViewPlan {
    private final SparkSession spark;
    /** The query as Spark runs it: what WITH names is computed once where that matters. */
    private final LogicalPlan query;
    /** The same as one tree. */
    private final LogicalPlan plan;
    private final Set<String> seenAsOfVersion = new HashSet<>();

    public ViewPlan(Dataset<Row> frame) {
        this.spark = (SparkSession) frame.sparkSession();
        LogicalPlan analysed = frame.queryExecution().analyzed();
        LogicalPlan inlined = new InlineCTE(true, false).apply(analysed);
        Map<String, TahoeLogFileIndex> newest = new HashMap<>();
        look(inlined, newest);
        this.query = analysed.transformWithSubqueries(new DeltaLeaf.Fixing(newest));
        this.plan = inlined.transformWithSubqueries(new DeltaLeaf.Fixing(newest));
    }

    private void look(LogicalPlan node, Map<String, TahoeLogFileIndex> newest) {
        TahoeLogFileIndex index = DeltaLeaf.index(node);
        if (index != null && index.isTimeTravelQuery()) {
            seenAsOfVersion.add(DeltaLeaf.path(index) + "@" + DeltaLeaf.version(index));
        } else if (index != null) {
            newest.merge(DeltaLeaf.path(index), index, ViewPlan::later);
        }
        CollectionConverters.asJava(node.children()).forEach(each -> look(each, newest));
        CollectionConverters.asJava(node.subqueries()).forEach(each -> look(each, newest));
    }

    private static TahoeLogFileIndex later(TahoeLogFileIndex one, TahoeLogFileIndex other) {
        return DeltaLeaf.version(one) < DeltaLeaf.version(other) ? other : one;
    }

    /** The query as JSON; see {@code rivermouth.domain.query.view_tree}. */
    public String tree() throws JsonProcessingException {
        return new ObjectMapper().writeValueAsString(new Tree(seenAsOfVersion).of(plan));
    }

    /** The whole result, whatever is committed to the tables meanwhile. */
    public Dataset<Row> whole() {
        return Dataset$.MODULE$.ofRows(spark, query);
    }

    /**
     * The rows that commits after a version added to a table and removed from it, with {@code _change_type}.
     *
     * @param leaf number of the node that reads the table
     * @param coarse whether it is found out by the files of the commits, and not by the change data feed
     */
    public Dataset<Row> changes(int leaf, long after, boolean coarse) {
        TahoeLogFileIndex index = DeltaLeaf.index(node(leaf));
        return (Dataset<Row>) CDCReader$.MODULE$.changesToBatchDF(
                index.deltaLog(),
                after + 1,
                DeltaLeaf.version(index),
                spark,
                Option.empty(),
                Option.apply(DeltaLeaf.snapshot(index)),
                coarse,
                Option.empty());
    }

    /** The query with other rows in the place of some tables, and with no rows in that of other nodes. */
    public Dataset<Row> over(List<Integer> leaves, List<Dataset<Row>> rows, List<Integer> emptied) {
        return Dataset$.MODULE$.ofRows(spark, new Rebuilt(leaves, rows, emptied).of(plan));
    }

    /** The keys {@code key_0}, {@code key_1} … that such rows have at a node that groups rows; each once. */
    public Dataset<Row> keys(int keyed, List<Integer> leaves, List<Dataset<Row>> rows, List<Integer> emptied) {
        Rebuilt rebuilt = new Rebuilt(leaves, rows, emptied);
        rebuilt.keyed = keyed;
        rebuilt.of(plan);
        List<NamedExpression> columns = new ArrayList<>();
        for (Expression each : Tree.keys(node(keyed))) {
            columns.add(alias(each, "key_" + columns.size(), NamedExpression$.MODULE$.newExprId()));
        }
        LogicalPlan found = new Project(sequence(columns.toArray(new NamedExpression[0])), rebuilt.below);
        return Dataset$.MODULE$.ofRows(spark, found).distinct();
    }

    /** The part of the result that comes of the groups with these keys. */
    public Dataset<Row> restricted(int keyed, Dataset<Row> keys) {
        Rebuilt rebuilt = new Rebuilt(List.of(), List.of(), List.of());
        rebuilt.keyed = keyed;
        rebuilt.keys = keys.queryExecution().analyzed();
        return Dataset$.MODULE$.ofRows(spark, rebuilt.of(plan));
    }

    private LogicalPlan node(int number) {
        return node(plan, new int[] {number});
    }

    private static LogicalPlan node(LogicalPlan plan, int[] left) {
        if (left[0]-- == 0) {
            return plan;
        }
        for (LogicalPlan each : CollectionConverters.asJava(plan.children())) {
            LogicalPlan found = node(each, left);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    private static Alias alias(Expression value, String name, org.apache.spark.sql.catalyst.expressions.ExprId id) {
        return new Alias(value, name, id, sequence(new String[0]), Option.empty(), sequence(new String[0]));
    }

    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T[] items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }

    /** The plan with parts of it replaced, numbered as {@link Tree} numbers them. */
    private static final class Rebuilt {
        private final Map<Integer, Dataset<Row>> rows = new HashMap<>();
        private final Set<Integer> emptied;
        private int keyed = -1;
        private LogicalPlan keys;
        private LogicalPlan below;
        private int number;

        Rebuilt(List<Integer> leaves, List<Dataset<Row>> rows, List<Integer> emptied) {
            for (int place = 0; place < leaves.size(); place++) {
                this.rows.put(leaves.get(place), rows.get(place));
            }
            this.emptied = new HashSet<>(emptied);
        }

        LogicalPlan of(LogicalPlan plan) {
            int mine = number++;
            List<LogicalPlan> children = new ArrayList<>();
            for (LogicalPlan each : CollectionConverters.asJava(plan.children())) {
                children.add(of(each));
            }
            if (emptied.contains(mine)) {
                return new LocalRelation(plan.output(), sequence(new InternalRow[0]), false, Option.empty());
            }
            if (rows.containsKey(mine)) {
                return renamed(plan, rows.get(mine).queryExecution().analyzed());
            }
            if (mine == keyed) {
                below = children.get(0);
                if (keys != null) {
                    children.set(0, semi(plan, below));
                }
            }
            return plan.withNewChildren(sequence(children.toArray(new LogicalPlan[0])));
        }

        private LogicalPlan semi(LogicalPlan plan, LogicalPlan child) {
            List<Attribute> wanted = CollectionConverters.asJava(keys.output());
            Expression same = null;
            int place = 0;
            for (Expression each : Tree.keys(plan)) {
                Expression one = new EqualNullSafe(each, wanted.get(place++));
                same = same == null ? one : new And(same, one);
            }
            return new Join(child, keys, LeftSemi$.MODULE$, Option.apply(same), JoinHint.NONE());
        }

        /** The rows with the identities by which the plan knows the columns of a table. */
        private static LogicalPlan renamed(LogicalPlan leaf, LogicalPlan source) {
            List<NamedExpression> columns = new ArrayList<>();
            for (Attribute each : CollectionConverters.asJava(leaf.output())) {
                for (Attribute found : CollectionConverters.asJava(source.output())) {
                    if (found.name().equalsIgnoreCase(each.name())) {
                        columns.add(alias(found, each.name(), each.exprId()));
                        break;
                    }
                }
            }
            return new Project(sequence(columns.toArray(new NamedExpression[0])), source);
        }
    }
}
