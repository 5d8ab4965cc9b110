package rivermouth.internals.jdbc;

import java.util.Locale;

import org.apache.spark.sql.jdbc.JdbcDialects;
import org.apache.spark.sql.jdbc.MySQLDialect;

/**
 * MariaDB by the address of its own driver, as Spark reads MySQL.
 *
 * Spark knows MySQL's address alone. For MariaDB it would put the names of columns into quotes that mean text there: all
 * values would be names of columns.
 */
public final class MariaDb extends MySQLDialect {
    private static final long serialVersionUID = 1L;
    private static final MariaDb KNOWN = new MariaDb();

    /** Spark knows the address from now on; doing it twice changes nothing. */
    public static void register() {
        JdbcDialects.registerDialect(KNOWN);
    }

    @Override
    public boolean canHandle(String url) {
        return url.toLowerCase(Locale.ROOT).startsWith("jdbc:mariadb:");
    }
}
