package rivermouth.internals.plan;

import java.util.Arrays;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;

import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;

/** Objects of ours as parts of a plan: generated code calls their methods for each row. */
public final class Calls {
    private Calls() {}

    /**
     * A column of what a method makes of others.
     *
     * @param object serializable, with {@code equals} and {@code hashCode} by what it does
     * @param method public, of as many arguments
     * @param type what it returns, as Spark has it inside
     * @param nullable whether it may return null
     */
    public static Column of(Object object, String method, DataType type, boolean nullable, Column... columns) {
        return call(object, method, type, nullable, true, columns);
    }

    /**
     * The same, called once for each row however often what it makes is used.
     *
     * <p>Spark repeats what it takes for cheap and sure; so this is said to be neither.
     */
    public static Column once(Object object, String method, DataType type, boolean nullable, String... columns) {
        return once(object, method, type, nullable, Arrays.stream(columns).map(functions::col).toArray(Column[]::new));
    }

    /** The same of columns that need not have names. */
    public static Column once(Object object, String method, DataType type, boolean nullable, Column... columns) {
        return call(object, method, type, nullable, false, columns);
    }

    /** Whether an expression is one of {@code once}, and so says the same of the same row whatever it is said to do. */
    static boolean isOnce(Expression expression) {
        return expression instanceof Invoke && ((Invoke) expression).targetObject() instanceof Literal;
    }

    private static Column call(
            Object object, String method, DataType type, boolean nullable, boolean repeats, Column... columns) {
        Expression called = new Literal(object, new ObjectType(object.getClass()));
        Expression[] values = Arrays.stream(columns).map(ExpressionUtils::expression).toArray(Expression[]::new);
        Seq<AbstractDataType> unsaid = sequence();
        return ExpressionUtils.column(
                new Invoke(called, method, type, sequence(values), unsaid, false, nullable, repeats));
    }

    @SafeVarargs
    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T... items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }
}
