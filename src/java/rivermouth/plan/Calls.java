package rivermouth.plan;

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
     * A column of what a method makes of another column; never null.
     *
     * @param object serializable, with {@code equals} and {@code hashCode} by what it does
     * @param method public, of one argument
     * @param type what it returns, as Spark has it inside
     */
    public static Column of(Object object, String method, String column, DataType type) {
        Expression called = new Literal(object, new ObjectType(object.getClass()));
        Expression value = ExpressionUtils.expression(functions.col(column));
        Seq<AbstractDataType> unsaid = sequence();
        return ExpressionUtils.column(new Invoke(called, method, type, sequence(value), unsaid, false, false, true));
    }

    @SafeVarargs
    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T... items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }
}
