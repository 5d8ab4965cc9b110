package rivermouth.internals.merge;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor;
import org.apache.spark.sql.delta.commands.DMLWithDeletionVectorsHelper$;
import org.apache.spark.sql.delta.commands.DeletionVectorData;
import org.apache.spark.sql.delta.commands.DeletionVectorResult;
import org.apache.spark.sql.delta.commands.DeletionVectorWriter.DeletionVectorMapperContext;
import org.apache.spark.sql.delta.commands.DeletionVectorWriter$;
import org.apache.spark.sql.delta.commands.TouchedFileWithDV;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore$;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStoreUtils;
import org.apache.spark.sql.delta.util.PathWithFileSystem;
import org.apache.spark.sql.delta.util.Utils$;

import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** Deletion vectors, written by the driver. */
final class DeletionVectorWriter {
    private DeletionVectorWriter() {}

    /**
     * Writes the vectors of all files into one.
     *
     * @param rows a file's path and the numbers of its rows that are gone, each file once
     */
    static List<TouchedFileWithDV> written(
            OptimisticTransaction transaction, Map<String, AddFile> candidates, List<Row> rows) {
        DeltaLog log = transaction.deltaLog();
        Path table = log.dataPath();
        Configuration hadoop = log.newDeltaHadoopConf();
        DeletionVectorStore store = DeletionVectorStore$.MODULE$.createInstance(hadoop);
        PathWithFileSystem place = store.pathWithFileSystem(table);
        int length = Utils$.MODULE$.getRandomPrefixLength(transaction.metadata());
        String prefix = Utils$.MODULE$.getRandomPrefix(length);
        Tuple2<DeletionVectorStoreUtils.Writer, UUID> opened =
                DeletionVectorWriter$.MODULE$.createWriter(store, place, prefix);
        List<TouchedFileWithDV> touched = new ArrayList<>();
        // A writer that cannot be closed has not written: what it says then is the commit's end.
        try (DeletionVectorStoreUtils.Writer writer = opened._1()) {
            DeletionVectorMapperContext context =
                    new DeletionVectorMapperContext(store, writer, table, opened._2(), prefix);
            for (Row row : rows) {
                String path = row.getString(0);
                AddFile file = DMLWithDeletionVectorsHelper$.MODULE$.getTouchedFile(table, path, candidates);
                DeletionVectorResult result = DeletionVectorWriter$.MODULE$.storeBitmapAndGenerateResult(
                        context, marks(path, file.deletionVector(), row.getSeq(1)));
                touched.add(new TouchedFileWithDV(path, file, result.deletionVector(), result.matchedRowCount()));
            }
        }
        return touched;
    }

    private static DeletionVectorData marks(
            String path, DeletionVectorDescriptor before, scala.collection.Seq<Object> rows) {
        RoaringBitmapArray bitmap = new RoaringBitmapArray();
        for (Object row : CollectionConverters.asJava(rows)) {
            bitmap.add((Long) row);
        }
        Option<String> known = before == null ? Option.empty() : Option.apply(before.serializeToBase64());
        byte[] bytes = bitmap.serializeAsByteArray(RoaringBitmapArrayFormat.Portable());
        return new DeletionVectorData(path, known, bytes, bitmap.cardinality());
    }
}
