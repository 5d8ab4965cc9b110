package rivermouth.internals.plan;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;

import scala.collection.immutable.IndexedSeq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An attempt of an expression that keeps something from row to row, as all that make maps do.
 *
 * <p>Where it throws, a part of the row's map would be in that of the next row. So a fresh one takes its place.
 */
public final class InterpretedAttempt extends Attempt implements CodegenFallback {
    private static final long serialVersionUID = 1;

    private transient Expression fresh;

    /**
     * Of an expression.
     *
     * @param child resolved, and deterministic
     */
    public InterpretedAttempt(Expression child) {
        super(child);
    }

    @Override
    public Object eval(InternalRow row) {
        try {
            return (fresh == null ? child : fresh).eval(row);
        } catch (Exception | StackOverflowError thrown) {
            fresh = child.freshCopyIfContainsStatefulExpression();
            return null;
        }
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode result) {
        return CodegenFallback.super.doGenCode(context, result);
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
        return new InterpretedAttempt(CollectionConverters.asJava(children).get(0));
    }
}
