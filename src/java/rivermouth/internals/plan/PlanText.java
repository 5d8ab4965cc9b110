package rivermouth.internals.plan;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.internal.SQLConf;

/** Queries as text. */
public final class PlanText {
    private PlanText() {}

    /**
     * The analysed query, whole.
     *
     * <p>Spark cuts texts of plans as the settings of the thread say. They are changed here for this thread alone, so
     * that queries of one session can be written down side by side.
     */
    public static String whole(Dataset<Row> query) {
        SQLConf conf = query.sparkSession().sessionState().conf().clone();
        conf.setConfString("spark.sql.debug.maxToStringFields", String.valueOf(Integer.MAX_VALUE));
        conf.setConfString("spark.sql.maxPlanStringLength", String.valueOf(Integer.MAX_VALUE - 15));
        return SQLConf.withExistingConf(conf, () -> query.queryExecution().analyzed().toString());
    }
}
