package rivermouth.internals.plan;

import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTime;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

import scala.Function1;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/**
 * The current time of a session's queries, where a test has set it, or of one query: {@code current_timestamp()} and its
 * relatives.
 *
 * <p>Spark asks the clock of the machine while it optimises a query, and a stream asks it for each batch. Before that,
 * Spark runs the rules that normalise a plan, which change nothing that the analysed plan says.
 */
public final class SessionTime {
    /** The setting of a session with its time, in microseconds since 1970. Without it the time is the machine's. */
    public static final String SETTING = "spark.rivermouth.session_time_us";

    private static final Set<SparkSessionExtensions> KNOWN = Collections.newSetFromMap(new WeakHashMap<>());

    private SessionTime() {}

    /** Sessions that are made of this one from now on have the time that their setting says. */
    public static synchronized void allow(SparkSession session) {
        SparkSessionExtensions extensions = session.extensions();
        if (KNOWN.add(extensions)) {
            extensions.injectPlanNormalizationRule(each -> new Setting((SparkSession) each));
        }
    }

    /** The same query, in which the current time is this one, in microseconds since 1970; itself if it asks no clock. */
    public static Dataset<Row> fixed(Dataset<Row> query, long micros) {
        LogicalPlan plan = query.queryExecution().analyzed();
        LogicalPlan found = (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new Fixing(micros));
        return found == plan ? query : Dataset$.MODULE$.ofRows(query.sparkSession(), found);
    }

    private static Literal literal(Expression clock, long micros) {
        DataType type = clock.dataType();
        if (type instanceof TimestampType) {
            return new Literal(micros, type);
        }
        ZoneId zone = ((TimeZoneAwareExpression) clock).zoneId();
        if (type instanceof DateType) {
            return new Literal(DateTimeUtils.microsToDays(micros, zone), type);
        }
        if (type instanceof TimestampNTZType) {
            return new Literal(DateTimeUtils.convertTz(micros, ZoneOffset.UTC, zone), type);
        }
        Instant at = Instant.EPOCH.plus(micros, ChronoUnit.MICROS);
        long nanos = at.atZone(zone).toLocalTime().toNanoOfDay();
        long unit = (long) Math.pow(10, 9 - ((TimeType) type).precision());
        return new Literal(nanos - nanos % unit, type);
    }

    private static final class Setting extends Rule<LogicalPlan> {
        private final SparkSession session;

        Setting(SparkSession session) {
            this.session = session;
        }

        @Override
        public LogicalPlan apply(LogicalPlan plan) {
            Option<String> micros = session.conf().getOption(SETTING);
            return micros.isEmpty()
                    ? plan
                    : (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new Fixing(Long.parseLong(micros.get())));
        }
    }

    private static final class Fixing extends AbstractPartialFunction<Expression, Expression> {
        private final long micros;

        Fixing(long micros) {
            this.micros = micros;
        }

        @Override
        public boolean isDefinedAt(Expression each) {
            return each instanceof CurrentTimestampLike
                    || each instanceof LocalTimestamp
                    || each instanceof CurrentDate
                    || each instanceof CurrentTime
                    || each instanceof CurrentBatchTimestamp;
        }

        @Override
        public <A extends Expression, B> B applyOrElse(A each, Function1<A, B> otherwise) {
            @SuppressWarnings("unchecked")
            B found = (B) (isDefinedAt(each) ? literal(each, micros) : null);
            return found != null ? found : otherwise.apply(each);
        }
    }
}
