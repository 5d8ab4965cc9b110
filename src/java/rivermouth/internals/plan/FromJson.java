package rivermouth.internals.plan;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.LegacyBehaviorPolicy$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.json.SureRows;

import scala.Function1;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Spark's {@code from_json} with the same results in less time.
 *
 * <p>Documents that surely fit their schema are read in one pass over their bytes. Spark's own expression reads all others.
 */
public final class FromJson implements Serializable {
    private static final long serialVersionUID = 1;

    private final JsonToStructs spark;
    private transient SureRows sure;

    /**
     * Of one expression.
     *
     * @param spark over a string that is the only value of its row
     */
    private FromJson(JsonToStructs spark) {
        this.spark = spark;
    }

    /**
     * Has the streams of a session, and of those that are cloned of it, read {@code from_json} by this class where it can be.
     *
     * <p>Before that, Spark leaves out the fields that a query does not use, which may change what a broken document becomes.
     * Of a batch query it also compares plans before and after, to prune partitions and to choose files. So those are left
     * as they are.
     */
    public static void addTo(SparkSession session) {
        ExperimentalMethods methods = session.experimental();
        List<Rule<LogicalPlan>> rules = new ArrayList<>(CollectionConverters.asJava(methods.extraOptimizations()));
        rules.add(new Reading());
        methods.extraOptimizations_$eq(sequence(rules.toArray()));
    }

    /** For Spark: the row of a document, as {@code from_json} has it. */
    public InternalRow read(UTF8String document) {
        if (document == null) {
            return null;
        }
        if (sure == null) {
            sure = new SureRows((StructType) spark.dataType(), "UTC".equals(spark.timeZoneId().get()));
        }
        InternalRow found = sure.read(document.getBytes());
        return found != null ? found : (InternalRow) spark.eval(new GenericInternalRow(new Object[] {document}));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FromJson && spark.equals(((FromJson) other).spark);
    }

    @Override
    public int hashCode() {
        return spark.hashCode();
    }

    /** Plans are printed: nothing of the schema. */
    @Override
    public String toString() {
        return "from_json";
    }

    private static final class Reading extends Rule<LogicalPlan> {
        @Override
        public LogicalPlan apply(LogicalPlan plan) {
            if (!plan.isStreaming()) {
                return plan;
            }
            SQLConf conf = SQLConf.get();
            boolean isUsual = conf.jsonEnablePartialResults()
                    && conf.legacyTimeParserPolicy().equals(LegacyBehaviorPolicy$.MODULE$.CORRECTED());
            return isUsual && plan.containsPattern(TreePattern$.MODULE$.JSON_TO_STRUCT())
                    ? (LogicalPlan) plan.transformAllExpressions(new Replacing(conf.columnNameOfCorruptRecord()))
                    : plan;
        }
    }

    private static final class Replacing extends AbstractPartialFunction<Expression, Expression> {
        private final String corrupt;

        Replacing(String corrupt) {
            this.corrupt = corrupt;
        }

        @Override
        public boolean isDefinedAt(Expression expression) {
            if (!(expression instanceof JsonToStructs)) {
                return false;
            }
            JsonToStructs parsed = (JsonToStructs) expression;
            return parsed.timeZoneId().isDefined()
                    && CollectionConverters.asJava(parsed.options()).isEmpty()
                    && parsed.schema() instanceof StructType
                    && parsed.dataType().equals(((StructType) parsed.schema()).asNullable())
                    && DataTypes.StringType.equals(parsed.child().dataType())
                    && !((StructType) parsed.schema()).getFieldIndex(corrupt).isDefined()
                    && SureRows.takes(parsed.schema());
        }

        @Override
        public <A extends Expression, B> B applyOrElse(A expression, Function1<A, B> otherwise) {
            @SuppressWarnings("unchecked")
            B result = isDefinedAt(expression) ? (B) fast((JsonToStructs) expression) : otherwise.apply(expression);
            return result;
        }

        private static Expression fast(JsonToStructs parsed) {
            Expression text = new BoundReference(0, DataTypes.StringType, true);
            FromJson reader = new FromJson(
                    parsed.copy(
                            parsed.schema(), parsed.options(), text, parsed.timeZoneId(), parsed.variantAllowDuplicateKeys()));
            Expression object = new Literal(reader, new ObjectType(FromJson.class));
            return new Invoke(object, "read", parsed.dataType(), sequence(parsed.child()), sequence(), true, true, true);
        }

    }

    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(Object... items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }
}
