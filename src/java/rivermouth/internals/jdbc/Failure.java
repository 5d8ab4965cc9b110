package rivermouth.internals.jdbc;

import java.sql.SQLException;

/** What a database or its driver says in an exception of Spark's. */
public final class Failure {
    /** In the place of a state of SQL: no driver takes the address. */
    public static final String NO_DRIVER = "driver";

    private Failure() {
    }

    /**
     * The SQLSTATE in an exception or its causes.
     *
     * @return empty where the driver gave none; null where neither a database nor a driver is the cause
     */
    public static String state(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof ClassNotFoundException) {
                return NO_DRIVER;
            }
            if (each instanceof SQLException found) {
                boolean isDriver = String.valueOf(found.getMessage()).startsWith("No suitable driver");
                return isDriver ? NO_DRIVER : String.valueOf(found.getSQLState() == null ? "" : found.getSQLState());
            }
        }
        return null;
    }
}
