package rivermouth.internals.plan;

import java.io.Serializable;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode;
import org.apache.spark.sql.types.DataType;

import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An expression that is null where it throws.
 *
 * <p>Spark has one, {@code TryEval}, and computes what two expressions have in common before both, outside of it. To
 * Spark this one is a branch, whose parts it computes nowhere else. A stack that overflows counts as well, as of a
 * pattern that a long text meets; Spark ends the JVM for it.
 */
public class Attempt extends Expression implements ConditionalExpression, Serializable {
    private static final long serialVersionUID = 1;

    /** What is attempted. */
    protected final Expression child;

    /**
     * Of an expression.
     *
     * @param child resolved
     */
    public Attempt(Expression child) {
        this.child = child;
    }

    @Override
    public Seq<Expression> children() {
        return sequence(child);
    }

    @Override
    public DataType dataType() {
        return child.dataType();
    }

    @Override
    public boolean nullable() {
        return true;
    }

    @Override
    public boolean foldable() {
        return child.foldable();
    }

    @Override
    public Object eval(InternalRow row) {
        try {
            return child.eval(row);
        } catch (Exception | StackOverflowError thrown) {
            return null;
        }
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode result) {
        ExprCode part = child.genCode(context);
        String thrown = context.freshName("thrown");
        String type = CodeGenerator$.MODULE$.javaType(dataType());
        String nothing = CodeGenerator$.MODULE$.defaultValue(dataType(), false);
        JavaCode[] inputs = {
            result.isNull(),
            result.value(),
            part.code(),
            result.value(),
            part.value(),
            result.isNull(),
            part.isNull(),
        };
        Block code = new CodeBlock(
                sequence(
                        "\nboolean ",
                        " = true;\n" + type + " ",
                        " = " + nothing + ";\ntry {\n",
                        "\n",
                        " = ",
                        ";\n",
                        " = ",
                        ";\n} catch (Exception " + thrown + ") {\n} catch (StackOverflowError " + thrown + ") {\n}\n"),
                sequence(inputs));
        return result.copy(code, result.isNull(), result.value());
    }

    @Override
    public Seq<Expression> alwaysEvaluatedInputs() {
        return sequence();
    }

    @Override
    public ConditionalExpression withNewAlwaysEvaluatedInputs(Seq<Expression> inputs) {
        return this;
    }

    @Override
    public Seq<Seq<Expression>> branchGroups() {
        return sequence();
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
        return new Attempt(CollectionConverters.asJava(children).get(0));
    }

    @Override
    public int productArity() {
        return 1;
    }

    @Override
    public Object productElement(int place) {
        return child;
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof Attempt;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Attempt && child.equals(((Attempt) other).child);
    }

    @Override
    public int hashCode() {
        return super.hashCode();
    }

    @SafeVarargs
    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T... items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }
}
