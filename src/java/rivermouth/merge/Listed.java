package rivermouth.merge;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.delta.DeltaColumnMapping$;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.VersionChecksum;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.types.StructType;

import scala.jdk.javaapi.CollectionConverters;

/**
 * A table's files as its newest version's checksum lists them, so that Spark need not work them out of the log
 * (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#version-checksum-file).
 */
final class Listed {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final char REPLACEMENT = '\ufffd';

    private final AddFile file;
    private final JsonNode statistics;

    private Listed(AddFile file, JsonNode statistics) {
        this.file = file;
        this.statistics = statistics;
    }

    /** The files of the snapshot; null where the checksum does not list them, or not all that is to be known of them. */
    static List<Listed> of(Snapshot snapshot) {
        if (snapshot.checksumOpt().isEmpty()) {
            return null;
        }
        VersionChecksum checksum = snapshot.checksumOpt().get();
        if (checksum.allFiles().isEmpty()) {
            return null;
        }
        List<Listed> files = new ArrayList<>();
        long bytes = 0;
        for (AddFile file : CollectionConverters.asJava(checksum.allFiles().get())) {
            JsonNode statistics = parsed(file.stats());
            boolean tight = statistics.path("tightBounds").asBoolean(true);
            // Those that were made anew beside marks count nulls in another way than those that follow.
            if (!statistics.path("numRecords").isIntegralNumber() || tight && file.deletionVector() != null) {
                return null;
            }
            bytes += file.size();
            files.add(new Listed(file, statistics));
        }
        return files.size() == checksum.numFiles() && bytes == checksum.tableSizeBytes() ? files : null;
    }

    private static JsonNode parsed(String statistics) {
        try {
            return JSON.readTree(statistics == null ? "" : statistics);
        } catch (JsonProcessingException unknown) {
            return JSON.missingNode();
        }
    }

    /** Those that may have a row within all of the ranges. */
    static List<AddFile> within(List<Listed> files, StructType schema, List<Range> ranges) {
        List<AddFile> found = new ArrayList<>();
        for (Listed each : files) {
            if (ranges.stream().allMatch(range -> each.mayHave(schema, range))) {
                found.add(each.file);
            }
        }
        return found;
    }

    private boolean mayHave(StructType schema, Range range) {
        if (schema.getFieldIndex(range.column()).isEmpty()) {
            return true;
        }
        String name = DeltaColumnMapping$.MODULE$.getPhysicalName(schema.apply(range.column()));
        JsonNode least = statistics.path("minValues").path(name);
        JsonNode greatest = statistics.path("maxValues").path(name);
        return !(before(greatest, range.least()) || after(least, range.greatest()));
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
                ? bound.isTextual() && bound.textValue().indexOf(REPLACEMENT) < 0
                : bound.isIntegralNumber() && bound.canConvertToLong();
    }

    private static int compared(JsonNode bound, Object value) {
        return value instanceof String text
                ? Arrays.compareUnsigned(utf8(bound.textValue()), utf8(text))
                : Long.compare(bound.longValue(), ((Number) value).longValue());
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
