package rivermouth.internals.views;

import java.util.Map;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.SnapshotDescriptor;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

import scala.Function1;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/** Where an analysed query reads a Delta table, and the same at one version. */
final class DeltaLeaf {
    private DeltaLeaf() {}

    /** The files of the table that a node reads; null if it reads none. */
    static TahoeLogFileIndex index(LogicalPlan plan) {
        if (plan instanceof LogicalRelation
                && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
            FileIndex index = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
            return index instanceof TahoeLogFileIndex ? (TahoeLogFileIndex) index : null;
        }
        return null;
    }

    static String path(TahoeLogFileIndex index) {
        return index.deltaLog().dataPath().toString();
    }

    static long version(TahoeLogFileIndex index) {
        return index.snapshotAtAnalysis().version();
    }

    /** The version that a query was analysed for, with all of its files: queries only keep what describes it. */
    static Snapshot snapshot(TahoeLogFileIndex index) {
        SnapshotDescriptor known = index.snapshotAtAnalysis();
        return known instanceof Snapshot
                ? (Snapshot) known
                : index.deltaLog().getSnapshotAt(known.version(), Option.empty(), index.catalogTableOpt(), false);
    }

    /** The node with files that stay those of a version, whatever is committed until it is run. */
    private static LogicalPlan with(LogicalRelation relation, TahoeLogFileIndex index, TahoeLogFileIndex newest) {
        HadoopFsRelation files = (HadoopFsRelation) relation.relation();
        TahoeLogFileIndex fixed = index.copy(
                index.spark(),
                index.deltaLog(),
                index.path(),
                snapshot(newest),
                index.catalogTableOpt(),
                index.partitionFilters(),
                true);
        return relation.copy(
                files.copy(
                        fixed,
                        files.partitionSchema(),
                        files.dataSchema(),
                        files.bucketSpec(),
                        files.fileFormat(),
                        files.options(),
                        files.sparkSession()),
                relation.output(),
                relation.catalogTable(),
                relation.isStreaming(),
                relation.stream());
    }

    /** Puts each table that is read as it is now at the version that {@code newest} has for its path. */
    static final class Fixing extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
        private final Map<String, TahoeLogFileIndex> newest;

        Fixing(Map<String, TahoeLogFileIndex> newest) {
            this.newest = newest;
        }

        private boolean moves(LogicalPlan plan) {
            TahoeLogFileIndex index = index(plan);
            return index != null && !index.isTimeTravelQuery();
        }

        @Override
        public boolean isDefinedAt(LogicalPlan plan) {
            return moves(plan);
        }

        @Override
        @SuppressWarnings("unchecked")
        public <A extends LogicalPlan, B> B applyOrElse(A plan, Function1<A, B> otherwise) {
            if (!moves(plan)) {
                return otherwise.apply(plan);
            }
            TahoeLogFileIndex mine = index(plan);
            return (B) with((LogicalRelation) (LogicalPlan) plan, mine, newest.getOrDefault(path(mine), mine));
        }
    }
}
