package rivermouth.internals.plan;

import java.util.Collections;
import java.util.List;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

import scala.Function1;
import scala.Option;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Plans that were analysed once, over a stand-in, and are put over one batch's rows after the other. */
public final class Prepared {
    private Prepared() {}

    /** A frame without rows that has the columns of {@code rows}, in which any of them may be null. */
    public static Dataset<Row> standIn(Dataset<Row> rows) {
        StructType schema = new StructType();
        for (StructField field : rows.schema().fields()) {
            schema = schema.add(field.name(), field.dataType(), true);
        }
        return rows.sparkSession().createDataFrame(Collections.emptyList(), schema);
    }

    /**
     * The frame that {@code prepared} would be, had it been made of {@code rows}; null if the columns of
     * {@code rows} are not those of {@code standIn}.
     *
     * @param prepared a frame made of {@code standIn}
     */
    public static Dataset<Row> over(Dataset<Row> prepared, Dataset<Row> standIn, Dataset<Row> rows) {
        LogicalPlan leaf = standIn.queryExecution().analyzed();
        LogicalPlan source = rows.queryExecution().analyzed();
        List<Attribute> wanted = CollectionConverters.asJava(leaf.output());
        List<Attribute> found = CollectionConverters.asJava(source.output());
        if (!fits(wanted, found)) {
            return null;
        }
        Replacing replacing = new Replacing(leaf, new Project(renamed(wanted, found), source));
        LogicalPlan plan = prepared.queryExecution().analyzed().transform(replacing);
        if (replacing.times != 1) {
            throw new IllegalStateException("the stand-in was found " + replacing.times + " times in its plan");
        }
        // Each frame would leave its number in the set that all copies of the plan share.
        plan.unsetTagValue(Dataset$.MODULE$.DATASET_ID_TAG());
        // Nothing in it is open: Spark need not look.
        plan.setAnalyzed();
        return Dataset$.MODULE$.ofRows(rows.sparkSession(), plan);
    }

    /** Whether Spark settled nothing for good when it analysed {@code frame}: no random seed, no other table. */
    public static boolean lasts(Dataset<Row> frame) {
        return !frame.queryExecution().analyzed().exists(Prepared::isOfItsTime);
    }

    private static Object isOfItsTime(LogicalPlan plan) {
        return CollectionConverters.asJava(plan.expressions()).stream().anyMatch(Prepared::isOfItsTime);
    }

    private static boolean isOfItsTime(Expression expression) {
        return expression.exists(part -> part instanceof PlanExpression || isUnsure(part));
    }

    /** Whether it is an expression itself, and none of its parts, that says something else each time. */
    private static boolean isUnsure(Expression part) {
        boolean parts = CollectionConverters.asJava(part.children()).stream().allMatch(Expression::deterministic);
        return !part.deterministic() && parts && !Calls.isOnce(part);
    }

    private static boolean fits(List<Attribute> wanted, List<Attribute> found) {
        boolean same = wanted.size() == found.size();
        for (int place = 0; same && place < wanted.size(); place++) {
            Attribute one = wanted.get(place);
            Attribute other = found.get(place);
            same = one.name().equals(other.name()) && one.dataType().equals(other.dataType());
        }
        return same;
    }

    /** The columns with the identities that the prepared plan knows them by. */
    private static Seq<NamedExpression> renamed(List<Attribute> wanted, List<Attribute> found) {
        NamedExpression[] columns = new NamedExpression[wanted.size()];
        for (int place = 0; place < columns.length; place++) {
            Attribute column = wanted.get(place);
            columns[place] =
                    new Alias(found.get(place), column.name(), column.exprId(), none(), Option.empty(), none());
        }
        return sequence(columns);
    }

    private static Seq<String> none() {
        return sequence(new String[0]);
    }

    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T[] items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }

    private static final class Replacing extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
        private final LogicalPlan leaf;
        private final LogicalPlan instead;
        private int times;

        Replacing(LogicalPlan leaf, LogicalPlan instead) {
            this.leaf = leaf;
            this.instead = instead;
        }

        @Override
        public boolean isDefinedAt(LogicalPlan plan) {
            return plan == leaf;
        }

        @Override
        public <A extends LogicalPlan, B> B applyOrElse(A plan, Function1<A, B> otherwise) {
            if (plan != leaf) {
                return otherwise.apply(plan);
            }
            times++;
            @SuppressWarnings("unchecked")
            B result = (B) instead;
            return result;
        }
    }
}
