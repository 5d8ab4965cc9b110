package rivermouth.internals.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;

import scala.jdk.javaapi.CollectionConverters;

/** Files that a batch of a stream was planned with and that are not there when it is read; Spark leaves them out. */
public final class MissingFiles {
    private static final String IGNORED = "ignoremissingfiles";

    private MissingFiles() {
    }

    /** Their addresses, without those of sources that have the option ignoreMissingFiles. */
    public static List<String> of(StreamingQuery query, SparkSession session) throws IOException {
        List<String> missing = new ArrayList<>();
        Configuration conf = session.sessionState().newHadoopConf();
        LogicalPlan batch = ((StreamingQueryWrapper) query).streamingQuery().lastExecution().logical();
        for (LogicalPlan leaf : CollectionConverters.asJava(batch.collectLeaves())) {
            if (leaf.isStreaming() && leaf instanceof LogicalRelation found
                    && found.relation() instanceof HadoopFsRelation files
                    && files.location() instanceof InMemoryFileIndex index && !ignores(files)) {
                add(index, conf, missing);
            }
        }
        return missing;
    }

    private static boolean ignores(HadoopFsRelation files) {
        for (var option : CollectionConverters.asJava(files.options()).entrySet()) {
            if (option.getKey().equalsIgnoreCase(IGNORED)) {
                return Boolean.parseBoolean(option.getValue());
            }
        }
        return files.sparkSession().sessionState().conf().ignoreMissingFiles();
    }

    private static void add(InMemoryFileIndex index, Configuration conf, List<String> missing) throws IOException {
        var folders = CollectionConverters.asJava(index.leafDirToChildrenFiles());
        for (Path root : CollectionConverters.asJava(index.rootPaths())) {
            Path whole = root.getFileSystem(conf).makeQualified(root);
            if (!index.leafFiles().contains(whole) && !folders.containsKey(whole)) {
                missing.add(whole.toString());
            }
        }
    }
}
