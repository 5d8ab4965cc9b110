package rivermouth.internals.plan;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF5;
import org.apache.spark.sql.api.java.UDF6;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.AccumulatorV2;

/**
 * Aggregates over the rows that pass, taken in the generated code of whatever action carries them on.
 *
 * <p>Spark's own way, {@code observe}, ends a stage of generated code and begins another: each row is laid out in full
 * between the two. Here the rows pass a filter that keeps them all. As with {@code observe}, a task that has to be run
 * again for a lost shuffle counts again.
 */
public final class Observer extends AccumulatorV2<Long, String> {
    private static final long serialVersionUID = 1;
    private static final int MOST_NAMES = 1000;
    private static final char BETWEEN_NAMES = 0;

    private final RowsByCode codes = new RowsByCode();
    private final Set<String> members = new HashSet<>();
    private final Map<String, Long> names = new HashMap<>();
    private long sum;
    private long xor;
    private boolean marked;

    /**
     * The rows, which are counted when they pass.
     *
     * @param code SQL, bigint and never null: rows are counted by it
     * @param summand SQL, bigint: summed where it is not null
     * @param member SQL, string: gathered into a set where it is not null
     * @param mark SQL, bigint: combined by exclusive or where it is not null
     * @param names SQL, string: names with a NUL between them; rows are counted by each where it is not null
     */
    public Dataset<Row> over(Dataset<Row> rows, String code, String summand, String member, String mark, String names) {
        rows.sparkSession().sparkContext().register(this);
        Column counted = functions.udf(new Passing(this), DataTypes.BooleanType)
                .asNondeterministic()
                .apply(functions.expr(code), functions.expr(summand), functions.expr(member), functions.expr(mark),
                        functions.expr(names));
        return rows.where(counted);
    }

    /**
     * Whether rows come from a source that gets Spark's filters and applies them itself, as Delta's change data feed does.
     *
     * <p>Spark gives it the filter of {@link #over}, too, and applies that once more: each row would be counted twice.
     */
    public static boolean isFilteredBySource(Dataset<Row> rows) {
        return rows.queryExecution().analyzed()
                .exists(node -> node instanceof LogicalRelation found && found.relation() instanceof CatalystScan);
    }

    /**
     * The same for the rows of many: those of number n are counted by observer n.
     *
     * @param number SQL, int and never null
     */
    public static Dataset<Row> overEach(
            List<Observer> observers, Dataset<Row> rows, String number, String code, String summand, String member, String mark,
            String names) {
        observers.forEach(each -> rows.sparkSession().sparkContext().register(each));
        Column counted = functions.udf(new PassingEach(observers), DataTypes.BooleanType)
                .asNondeterministic()
                .apply(functions.expr(number), functions.expr(code), functions.expr(summand), functions.expr(member),
                        functions.expr(mark), functions.expr(names));
        return rows.where(counted);
    }

    /**
     * A line each: rows by code as {@code code:rows,…}; the sum; the mark; whether any row had one; the set. What is left
     * are the names, each before its number of rows, with a NUL between all of them.
     */
    @Override
    public String value() {
        String named = names.entrySet().stream()
                .map(each -> each.getKey() + BETWEEN_NAMES + each.getValue())
                .collect(Collectors.joining(String.valueOf(BETWEEN_NAMES)));
        return codes + "\n" + sum + "\n" + xor + "\n" + marked + "\n" + String.join(",", members) + "\n" + named;
    }

    /** Counts one row. */
    void add(long found, Long summand, String member, Long mark, String named) {
        codes.add(found);
        if (summand != null) {
            sum += summand;
        }
        if (member != null) {
            members.add(member);
        }
        if (mark != null) {
            xor ^= mark;
            marked = true;
        }
        if (named != null && !named.isEmpty()) {
            for (String name : named.split(String.valueOf(BETWEEN_NAMES))) {
                count(name, 1);
            }
        }
    }

    /** Documents may have a name of their own each: then some are counted, and not all. */
    private void count(String name, long rows) {
        if (names.size() < MOST_NAMES || names.containsKey(name)) {
            names.merge(name, rows, Long::sum);
        }
    }

    @Override
    public void add(Long found) {
        add(found, null, null, null, null);
    }

    @Override
    public boolean isZero() {
        return codes.isEmpty();
    }

    @Override
    public Observer copy() {
        Observer other = new Observer();
        other.merge(this);
        return other;
    }

    @Override
    public void reset() {
        codes.clear();
        members.clear();
        names.clear();
        sum = 0;
        xor = 0;
        marked = false;
    }

    @Override
    public void merge(AccumulatorV2<Long, String> other) {
        Observer its = (Observer) other;
        codes.addAll(its.codes);
        members.addAll(its.members);
        its.names.forEach(this::count);
        sum += its.sum;
        xor ^= its.xor;
        marked |= its.marked;
    }

    /** It is read when its task has ended: until then nothing keeps two threads apart. */
    @Override
    public boolean excludeFromHeartbeat() {
        return true;
    }

    private static final class Passing implements UDF5<Long, Long, String, Long, String, Boolean> {
        private static final long serialVersionUID = 1;

        private final Observer observer;

        Passing(Observer observer) {
            this.observer = observer;
        }

        @Override
        public Boolean call(Long code, Long summand, String member, Long mark, String named) {
            observer.add(code, summand, member, mark, named);
            return Boolean.TRUE;
        }
    }

    private static final class PassingEach implements UDF6<Integer, Long, Long, String, Long, String, Boolean> {
        private static final long serialVersionUID = 1;

        private final ArrayList<Observer> observers;

        PassingEach(List<Observer> observers) {
            this.observers = new ArrayList<>(observers);
        }

        @Override
        public Boolean call(Integer number, Long code, Long summand, String member, Long mark, String named) {
            observers.get(number).add(code, summand, member, mark, named);
            return Boolean.TRUE;
        }
    }
}
