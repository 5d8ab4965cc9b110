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
        return of(object, method, type, column);
    }

    /** The same of several columns: as many arguments has the method. */
    public static Column of(Object object, String method, DataType type, String... columns) {
        Expression called = new Literal(object, new ObjectType(object.getClass()));
        Expression[] values = new Expression[columns.length];
        for (int place = 0; place < columns.length; place++) {
            values[place] = ExpressionUtils.expression(functions.col(columns[place]));
        }
        Seq<AbstractDataType> unsaid = sequence();
        return ExpressionUtils.column(new Invoke(called, method, type, sequence(values), unsaid, false, false, true));
    }

    @SafeVarargs
    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T... items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }
}
