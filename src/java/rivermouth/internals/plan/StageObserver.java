package rivermouth.internals.plan;

import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.AccumulatorV2;

/**
 * Rows that pass, by code, however many actions read them: of each batch of a stream it is the stage with the most of
 * them that counts.
 *
 * <p>Each action over a batch reads it from its source again, in a stage of its own. One that looks at the first rows
 * alone counts fewer. The batches of a stream come one after the other: of those before the newest the sums are kept.
 */
public final class StageObserver extends AccumulatorV2<Long, String> {
    private static final long serialVersionUID = 1;
    private static final int NO_STAGE = -1;
    private static final long NO_BATCH = -1;
    /** Spark's own name for the number of a batch, in the tasks of a streaming query. */
    private static final String BATCH = "streaming.sql.batchId";

    /** Of the newest batch. */
    private final Map<Integer, RowsByCode> stages = new HashMap<>();

    private final RowsByCode before = new RowsByCode();
    private long batch = NO_BATCH;
    private RowsByCode ofTask;

    /**
     * The rows, which are counted when they pass, also within a streaming query whose source may apply Spark's filters
     * itself: here it gets none.
     *
     * <p>Spark does not move a filter below a projection whose value may be another one the next time.
     *
     * @param column name of a column that the rows do not have
     * @param code SQL, bigint and never null: rows are counted by it
     */
    public Dataset<Row> over(Dataset<Row> rows, String column, String code) {
        rows.sparkSession().sparkContext().register(this);
        Column counted = functions.udf(new Passing(this), DataTypes.BooleanType)
                .asNondeterministic()
                .apply(functions.expr(code));
        return rows.withColumn(column, counted).where(functions.col(column)).drop(column);
    }

    /** Rows by code as {@code code:rows,…}. */
    @Override
    public String value() {
        RowsByCode all = new RowsByCode();
        all.addAll(before);
        all.addAll(ofBatch());
        return all.toString();
    }

    /** In a task, whose copy of this is of one stage. */
    @Override
    public void add(Long found) {
        if (ofTask == null) {
            TaskContext task = TaskContext.get();
            String number = task == null ? null : task.getLocalProperty(BATCH);
            batch = number == null ? NO_BATCH : Long.parseLong(number);
            ofTask = stages.computeIfAbsent(task == null ? NO_STAGE : task.stageId(), stage -> new RowsByCode());
        }
        ofTask.add(found);
    }

    @Override
    public boolean isZero() {
        return stages.isEmpty() && before.isEmpty();
    }

    @Override
    public StageObserver copy() {
        StageObserver other = new StageObserver();
        other.merge(this);
        return other;
    }

    @Override
    public void reset() {
        stages.clear();
        before.clear();
        batch = NO_BATCH;
        ofTask = null;
    }

    @Override
    public void merge(AccumulatorV2<Long, String> other) {
        StageObserver its = (StageObserver) other;
        before.addAll(its.before);
        if (its.batch > batch) {
            before.addAll(ofBatch());
            stages.clear();
            batch = its.batch;
        }
        if (its.batch < batch) {
            return; // a task that ends behind its batch: another one has done its work
        }
        its.stages.forEach((stage, codes) -> stages.computeIfAbsent(stage, missing -> new RowsByCode()).addAll(codes));
    }

    private RowsByCode ofBatch() {
        return stages.values().stream()
                .max(Comparator.comparingLong(RowsByCode::total))
                .orElseGet(RowsByCode::new);
    }

    /** It is read when its task has ended: until then nothing keeps two threads apart. */
    @Override
    public boolean excludeFromHeartbeat() {
        return true;
    }

    private static final class Passing implements UDF1<Long, Boolean> {
        private static final long serialVersionUID = 1;

        private final StageObserver observer;

        Passing(StageObserver observer) {
            this.observer = observer;
        }

        @Override
        public Boolean call(Long code) {
            observer.add(code);
            return Boolean.TRUE;
        }
    }
}
