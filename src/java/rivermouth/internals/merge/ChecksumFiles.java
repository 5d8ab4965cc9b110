package rivermouth.internals.merge;

import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.delta.DeltaColumnMapping$;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.VersionChecksum;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.types.StructType;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table's files as its newest version's checksum lists them, so that Spark need not work them out of the log
 * (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#version-checksum-file).
 */
public final class ChecksumFiles {
    private static final ObjectMapper JSON = new ObjectMapper();
    
    private final AddFile file;
    private final JsonNode statistics;

    private ChecksumFiles(AddFile file, JsonNode statistics) {
        this.file = file;
        this.statistics = statistics;
    }

    /** The files of the snapshot; null where the checksum does not list them, or not all of them. */
    public static Seq<AddFile> all(Snapshot snapshot) {
        if (snapshot.checksumOpt().isEmpty()) {
            return null;
        }
        VersionChecksum checksum = snapshot.checksumOpt().get();
        if (checksum.numFiles() == 0) {
            return scala.collection.immutable.List.from(CollectionConverters.asScala(List.<AddFile>of()));
        }
        if (checksum.allFiles().isEmpty()) {
            return null;
        }
        Seq<AddFile> files = checksum.allFiles().get();
        List<AddFile> listed = CollectionConverters.asJava(files);
        long bytes = listed.stream().mapToLong(AddFile::size).sum();
        return listed.size() == checksum.numFiles() && bytes == checksum.tableSizeBytes() ? files : null;
    }

    /** The same with their statistics; null also where the checksum does not list all that is to be known of them. */
    static List<ChecksumFiles> of(Snapshot snapshot) {
        Seq<AddFile> all = all(snapshot);
        if (all == null) {
            return null;
        }
        List<ChecksumFiles> files = new ArrayList<>();
        for (AddFile file : CollectionConverters.asJava(all)) {
            JsonNode statistics = parsed(file.stats());
            boolean tight = statistics.path("tightBounds").asBoolean(true);
            // Those that were made again next to a deletion vector count nulls in another way than those that follow.
            if (!statistics.path("numRecords").isIntegralNumber() || tight && file.deletionVector() != null) {
                return null;
            }
            files.add(new ChecksumFiles(file, statistics));
        }
        return files;
    }

    private static JsonNode parsed(String statistics) {
        try {
            return JSON.readTree(statistics == null ? "" : statistics);
        } catch (JsonProcessingException unknown) {
            return JSON.missingNode();
        }
    }

    /** Those that may have a row within all of the ranges. */
    static List<ChecksumFiles> within(List<ChecksumFiles> files, StructType schema, List<Range> ranges) {
        return files.stream()
                .filter(file -> ranges.stream().allMatch(range -> file.mayHave(schema, range)))
                .toList();
    }

    /** Those that may have a row with one of the values of each column. */
    static List<ChecksumFiles> with(List<ChecksumFiles> files, StructType schema, List<Values> values) {
        return files.stream()
                .filter(file -> values.stream().allMatch(each -> file.mayHave(schema, each)))
                .toList();
    }

    /** The files. */
    static List<AddFile> files(List<ChecksumFiles> of) {
        return of.stream().map(each -> each.file).toList();
    }

    /** Their size. */
    static long bytes(List<ChecksumFiles> of) {
        return of.stream().mapToLong(each -> each.file.size()).sum();
    }

    private boolean mayHave(StructType schema, Range range) {
        JsonNode least = bound("minValues", schema, range.column());
        JsonNode greatest = bound("maxValues", schema, range.column());
        return !(before(greatest, range.least()) || after(least, range.greatest()));
    }

    private boolean mayHave(StructType schema, Values values) {
        JsonNode least = bound("minValues", schema, values.column());
        JsonNode greatest = bound("maxValues", schema, values.column());
        int from = 0;
        int to = values.sorted().size();
        while (from < to) {
            int middle = (from + to) >>> 1;
            if (after(least, values.sorted().get(middle))) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        return from < values.sorted().size() && !before(greatest, values.sorted().get(from));
    }

    private JsonNode bound(String which, StructType schema, String column) {
        if (schema.getFieldIndex(column).isEmpty()) {
            return JSON.missingNode();
        }
        return statistics.path(which).path(DeltaColumnMapping$.MODULE$.getPhysicalName(schema.apply(column)));
    }

    private static boolean before(JsonNode bound, Object value) {
        return known(bound, value) && compared(bound, value) < 0;
    }

    private static boolean after(JsonNode bound, Object value) {
        return known(bound, value) && compared(bound, value) > 0;
    }

    private static boolean known(JsonNode bound, Object value) {
        return value instanceof String
                // Bytes that are no text were written as others.
                ? bound.isTextual() && bound.textValue().indexOf(Values.REPLACEMENT) < 0
                : bound.isIntegralNumber() && bound.canConvertToLong();
    }

    private static int compared(JsonNode bound, Object value) {
        return value instanceof String text
                ? Values.compared(bound.textValue(), text)
                : Long.compare(bound.longValue(), ((Number) value).longValue());
    }
}
