package rivermouth.internals.plan;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Numbers of rows by their codes. Most rows have the code of the row before: those are counted without a look-up. */
final class RowsByCode implements Serializable {
    private static final long serialVersionUID = 1;

    private final Map<Long, Long> rows = new HashMap<>();
    private long code;
    private long run;

    /** Counts one row. */
    void add(long found) {
        if (found != code) {
            flush();
            code = found;
        }
        run++;
    }

    void addAll(RowsByCode others) {
        others.flush();
        others.rows.forEach((each, count) -> rows.merge(each, count, Long::sum));
    }

    void clear() {
        rows.clear();
        run = 0;
    }

    boolean isEmpty() {
        return run == 0 && rows.isEmpty();
    }

    /** All rows that were counted. */
    long total() {
        return rows.values().stream().mapToLong(Long::longValue).sum() + run;
    }

    /** {@code code:rows,…}, in no order. */
    @Override
    public String toString() {
        flush();
        return rows.entrySet().stream()
                .map(each -> each.getKey() + ":" + each.getValue())
                .collect(Collectors.joining(","));
    }

    private void flush() {
        if (run > 0) {
            rows.merge(code, run, Long::sum);
            run = 0;
        }
    }
}
