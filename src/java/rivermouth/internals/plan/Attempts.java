package rivermouth.internals.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.ConcatWs;
import org.apache.spark.sql.catalyst.expressions.Contains;
import org.apache.spark.sql.catalyst.expressions.CreateArray;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.DayOfMonth;
import org.apache.spark.sql.catalyst.expressions.EndsWith;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.GetMapValue;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Length;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Lower;
import org.apache.spark.sql.catalyst.expressions.Month;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Size;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.StringTrim;
import org.apache.spark.sql.catalyst.expressions.Upper;
import org.apache.spark.sql.catalyst.expressions.Year;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

import scala.Option;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Expressions of users that are null where they throw, in the projection with which a frame ends.
 *
 * <p>What surely does not throw stays as it is, so that Spark can still read less by it.
 */
public final class Attempts {
    private static final Set<Class<?>> SURE = Set.of(
            Alias.class,
            And.class,
            ArrayContains.class,
            AttributeReference.class,
            CaseWhen.class,
            Coalesce.class,
            ConcatWs.class,
            Contains.class,
            CreateArray.class,
            CreateNamedStruct.class,
            DayOfMonth.class,
            EndsWith.class,
            EqualNullSafe.class,
            EqualTo.class,
            GetMapValue.class,
            GetStructField.class,
            GreaterThan.class,
            GreaterThanOrEqual.class,
            If.class,
            In.class,
            IsNaN.class,
            IsNotNull.class,
            IsNull.class,
            Length.class,
            LessThan.class,
            LessThanOrEqual.class,
            Literal.class,
            Lower.class,
            Month.class,
            Not.class,
            Or.class,
            Size.class,
            StartsWith.class,
            StringTrim.class,
            Upper.class,
            Year.class);

    private Attempts() {}

    /**
     * The frame, where columns have another value in the rows for which their expressions throw.
     *
     * @param frame ends with a projection
     * @param columns the names of columns that this projection makes
     * @param otherwise a boolean, or null
     * @return null where none of the expressions may throw
     */
    public static Dataset<Row> instead(Dataset<Row> frame, List<String> columns, Boolean otherwise) {
        Project top = top(frame, columns);
        if (top == null) {
            return null;
        }
        List<NamedExpression> found = new ArrayList<>();
        for (NamedExpression each : CollectionConverters.asJava(top.projectList())) {
            found.add(attempted(each, columns) ? renamed((Alias) each, part -> or(attempt(part), otherwise)) : each);
        }
        return frame(frame, found, top.child());
    }

    /**
     * The same, with a further column that names the column whose expression throws.
     *
     * @param frame ends with a projection
     * @param columns the names of columns that this projection makes
     * @param otherwise what a column is in such a row: a boolean, or null
     * @param failed the name of the further column: the name of the first column that failed, or null
     * @return null where none of the expressions may throw
     */
    public static Dataset<Row> marked(Dataset<Row> frame, List<String> columns, Boolean otherwise, String failed) {
        Project top = top(frame, columns);
        if (top == null) {
            return null;
        }
        List<Alias> attempts = new ArrayList<>();
        List<String> called = new ArrayList<>();
        List<NamedExpression> made = new ArrayList<>();
        List<NamedExpression> found = new ArrayList<>();
        for (NamedExpression each : CollectionConverters.asJava(top.projectList())) {
            if (!attempted(each, columns)) {
                made.add(each);
                found.add(each.toAttribute());
                continue;
            }
            Alias alias = (Alias) each;
            // A null that an expression makes is none of those that it throws for.
            Expression attempt = attempt(new CreateNamedStruct(sequence(text("made"), alias.child())));
            Alias beside = named(attempt, "__attempt");
            made.add(beside);
            Expression part = new GetStructField(beside.toAttribute(), 0, Option.empty());
            found.add(renamed(alias, whole -> or(part, otherwise)));
            attempts.add(beside);
            called.add(alias.name());
        }
        Expression first = new Literal(null, DataTypes.StringType);
        for (int place = attempts.size() - 1; place >= 0; place--) {
            first = new If(new IsNull(attempts.get(place).toAttribute()), text(called.get(place)), first);
        }
        found.add(named(first, failed));
        return frame(frame, found, new Project(list(made), top.child()));
    }

    /** The projection with which a frame ends; null where it makes none of the columns by what may throw. */
    private static Project top(Dataset<Row> frame, List<String> columns) {
        LogicalPlan plan = frame.queryExecution().analyzed();
        if (!(plan instanceof Project)) {
            return null;
        }
        List<NamedExpression> parts = CollectionConverters.asJava(((Project) plan).projectList());
        return parts.stream().anyMatch(each -> attempted(each, columns)) ? (Project) plan : null;
    }

    private static boolean attempted(NamedExpression each, List<String> columns) {
        return each instanceof Alias && columns.contains(each.name()) && mayThrow(((Alias) each).child());
    }

    /** What makes maps by chance cannot be made afresh: where that throws, the job ends as without an attempt. */
    private static Expression attempt(Expression part) {
        boolean keeps = part.exists(each -> each.stateful());
        return !keeps ? new Attempt(part) : part.deterministic() ? new InterpretedAttempt(part) : part;
    }

    private static boolean mayThrow(Expression expression) {
        return !isSure(expression)
                || CollectionConverters.asJava(expression.children()).stream().anyMatch(Attempts::mayThrow);
    }

    private static boolean isSure(Expression each) {
        if (each instanceof Cast) {
            Cast cast = (Cast) each;
            return EvalMode.LEGACY().equals(cast.evalMode()) && isSure(cast.child().dataType(), cast.dataType());
        }
        if (each instanceof BinaryArithmetic) {
            boolean lenient = EvalMode.LEGACY().equals(((BinaryArithmetic) each).evalMode());
            return lenient && each.dataType() instanceof NumericType;
        }
        if (each instanceof GetArrayItem) {
            return !((GetArrayItem) each).failOnError();
        }
        return SURE.contains(each.getClass());
    }

    /** Whether Spark makes null of what it cannot cast; of a date that is far away it makes no time, but throws. */
    private static boolean isSure(DataType from, DataType to) {
        boolean scalar = to instanceof NumericType
                || to instanceof StringType
                || to instanceof BooleanType
                || to instanceof DateType
                || to instanceof TimestampType
                || to instanceof TimestampNTZType;
        boolean ofTimestamp = from instanceof TimestampType && to instanceof DateType;
        return ofTimestamp
                || scalar
                        && (from instanceof NumericType
                                || from instanceof StringType
                                || from instanceof BooleanType
                                || from instanceof BinaryType);
    }

    private static Expression or(Expression attempt, Boolean otherwise) {
        return otherwise == null
                ? attempt
                : new Coalesce(sequence(attempt, new Literal(otherwise, DataTypes.BooleanType)));
    }

    private static Alias renamed(Alias alias, UnaryOperator<Expression> change) {
        return new Alias(
                change.apply(alias.child()),
                alias.name(),
                alias.exprId(),
                alias.qualifier(),
                alias.explicitMetadata(),
                alias.nonInheritableMetadataKeys());
    }

    private static Alias named(Expression expression, String name) {
        return new Alias(
                expression, name, NamedExpression$.MODULE$.newExprId(), sequence(), Option.empty(), sequence());
    }

    private static Literal text(String text) {
        return new Literal(UTF8String.fromString(text), DataTypes.StringType);
    }

    private static Dataset<Row> frame(Dataset<Row> frame, List<NamedExpression> columns, LogicalPlan child) {
        return Dataset$.MODULE$.ofRows(frame.sparkSession(), new Project(list(columns), child));
    }

    private static Seq<NamedExpression> list(List<NamedExpression> columns) {
        return sequence(columns.toArray(new NamedExpression[0]));
    }

    @SafeVarargs
    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T... items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }
}
