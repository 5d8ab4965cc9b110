package rivermouth.times;

/**
 * The times that a table may hold: the years 1 to 9999, the range that all readers of a Delta table can read.
 *
 * <p>The same bound is in {@code schemas/time_bounds.py}.
 */
public final class Bounds {
    /** Days since 1970 of 0001-01-01. */
    public static final int FIRST_DAY = -719_162;

    /** Of 9999-12-31. */
    public static final int LAST_DAY = 2_932_896;

    private static final long DAY_MICROS = 86_400_000_000L;

    /** Microseconds since 1970 of 0001-01-01T00:00:00Z. */
    public static final long FIRST_MICROS = FIRST_DAY * DAY_MICROS;

    /** Of 9999-12-31T23:59:59.999999Z. */
    public static final long LAST_MICROS = (LAST_DAY + 1) * DAY_MICROS - 1;

    private Bounds() {}

    /** Whether so many microseconds since 1970 are within the bound. */
    public static boolean hold(long micros) {
        return micros >= FIRST_MICROS && micros <= LAST_MICROS;
    }

    /** Whether so many days since 1970 are within the bound. */
    public static boolean holdDay(long day) {
        return day >= FIRST_DAY && day <= LAST_DAY;
    }
}
