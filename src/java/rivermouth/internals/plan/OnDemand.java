package rivermouth.internals.plan;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;

import org.apache.spark.SparkEnv;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.package$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * A column of Spark's over one binary column, computed for the values for which it is asked, and not in the plan.
 *
 * <p>It goes to the tasks packed: most never ask.
 */
public final class OnDemand implements Serializable {
    private static final long serialVersionUID = 1;
    private static final ClassTag<Expression> EXPRESSION = ClassTag$.MODULE$.apply(Expression.class);

    private final byte[] expression;
    private final int size;
    private transient UnsafeProjection projection;

    /**
     * The only column of a frame.
     *
     * @param frame made of {@code values} by nothing but projections
     */
    public OnDemand(org.apache.spark.sql.Dataset<Row> frame) {
        LogicalPlan plan = ((Dataset<Row>) frame).queryExecution().optimizedPlan();
        if (!(plan instanceof Project) || !(((Project) plan).child() instanceof LogicalRDD)) {
            throw new IllegalStateException("the frame is more than a projection");
        }
        Project project = (Project) plan;
        NamedExpression named = CollectionConverters.asJava(project.projectList()).get(0);
        Expression made = ((Alias) named).child();
        Expression bound = BindReferences.bindReference(made, package$.MODULE$.AttributeSeq(project.child().output()), false);
        size = ((StructType) bound.dataType()).size();
        expression = zipped(SparkEnv.get().closureSerializer().newInstance().serialize(bound, EXPRESSION).array());
    }

    /** A frame to make the column of: its only column is binary. */
    public static Dataset<Row> values(SparkSession spark, String name) {
        RDD<Row> none = spark.sparkContext().emptyRDD(ClassTag$.MODULE$.apply(Row.class));
        return spark.createDataFrame(none, new StructType().add(name, DataTypes.BinaryType));
    }

    /** The struct of a value, a copy; null if the column is null. */
    public synchronized InternalRow of(byte[] value) {
        if (projection == null) {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            Expression found = SparkEnv.get().closureSerializer().newInstance()
                    .deserialize(ByteBuffer.wrap(unzipped()), loader, EXPRESSION);
            projection = UnsafeProjection.create(sequence(found));
        }
        UnsafeRow row = projection.apply(new GenericInternalRow(new Object[] {value}));
        return row.isNullAt(0) ? null : row.getStruct(0, size).copy();
    }

    private static byte[] zipped(byte[] all) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (DeflaterOutputStream zip = new DeflaterOutputStream(out)) {
            zip.write(all);
        } catch (IOException never) {
            throw new UncheckedIOException(never);
        }
        return out.toByteArray();
    }

    private byte[] unzipped() {
        try (InflaterInputStream zip = new InflaterInputStream(new ByteArrayInputStream(expression))) {
            return zip.readAllBytes();
        } catch (IOException never) {
            throw new UncheckedIOException(never);
        }
    }

    private static Seq<Expression> sequence(Expression only) {
        @SuppressWarnings("unchecked")
        Seq<Expression> found = (Seq<Expression>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(new Expression[] {only});
        return found;
    }
}
