package rivermouth.internals.catalog;

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand;
import org.apache.spark.sql.execution.command.CreateDataSourceTableCommand;

import scala.jdk.javaapi.CollectionConverters;

/**
 * Refuses tables of other formats than Delta that have no path.
 *
 * <p>Spark makes them without a look at the session's catalog, in its warehouse, and only this process knows their names.
 */
final class TablesWithoutPlace extends Rule<LogicalPlan> {
    private static final String CATALOG = "spark.sql.catalogImplementation";
    private static final String OF_THIS_PROCESS = "in-memory";

    /** From now on, this session refuses them, and so do its copies. A metastore keeps names, so nothing is refused there. */
    static void refuse(SparkSession session) {
        if (!OF_THIS_PROCESS.equals(session.sessionState().conf().getConfString(CATALOG, OF_THIS_PROCESS))) {
            return;
        }
        ExperimentalMethods methods = session.experimental();
        List<Rule<LogicalPlan>> rules = new ArrayList<>(CollectionConverters.asJava(methods.extraOptimizations()));
        if (rules.stream().noneMatch(TablesWithoutPlace.class::isInstance)) {
            rules.add(new TablesWithoutPlace());
            methods.extraOptimizations_$eq(scala.collection.immutable.List.from(CollectionConverters.asScala(rules)));
        }
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        CatalogTable made =
                plan instanceof CreateDataSourceTableCommand empty
                        ? empty.table()
                        : plan instanceof CreateDataSourceTableAsSelectCommand filled ? filled.table() : null;
        if (made != null && made.tableType().equals(CatalogTableType.MANAGED())) {
            throw new UnsupportedOperationException(
                    String.format(
                            "the table %s of format %s is not made: it has no path, and only Delta tables are made by name",
                            made.identifier().table(), made.provider().getOrElse(() -> "parquet")));
        }
        return plan;
    }
}
