package rivermouth.internals.files;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

import org.apache.avro.file.DataFileStream;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils;
import org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;

import rivermouth.internals.plan.Calls;

/**
 * The columns that Parquet, ORC and Avro files have and a schema does not, from what each file says of itself.
 *
 * <p>Spark's readers pass over such columns and tell nobody.
 */
public final class FileFields implements Serializable {
    private static final long serialVersionUID = 1;

    private final String format;
    private final StructType known;
    private final int depth;
    private final SerializableConfiguration conf;
    private transient String last;
    private transient UTF8String found;

    /**
     * Of one source.
     *
     * @param session with the access to the files
     * @param format {@code parquet}, {@code orc} or {@code avro}
     * @param known the schema, in Spark's JSON form
     * @param depth how deep recursive fields of Avro are read; -1 where they are not
     */
    public FileFields(SparkSession session, String format, String known, int depth) {
        this.depth = depth;
        this.format = format;
        this.known = (StructType) DataType.fromJson(known);
        this.conf = new SerializableConfiguration(session.sessionState().newHadoopConf());
    }

    /** Of SQL with the address of a file: the names of its columns that the schema does not have, by comma, or null. */
    public Column of(String file) {
        return Calls.of(this, "unknown", DataTypes.StringType, true, functions.expr(file));
    }

    /** For Spark: the names, or null. The rows of a file come one after the other. */
    public UTF8String unknown(UTF8String file) {
        if (file == null) {
            return null;
        }
        String path = file.toString();
        if (!path.equals(last)) {
            try {
                List<String> names = names(new Path(java.net.URI.create(path)));
                found = names.isEmpty() ? null : UTF8String.fromString(String.join(", ", names));
            } catch (IOException failed) {
                throw new UncheckedIOException(failed);
            }
            last = path;
        }
        return found;
    }

    private List<String> names(Path path) throws IOException {
        List<String> names = new ArrayList<>();
        unknown(columns(path), known, "", names);
        return names;
    }

    private DataType columns(Path path) throws IOException {
        Configuration access = conf.value();
        switch (format) {
            case "parquet":
                try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromPath(path, access))) {
                    return new ParquetToSparkSchemaConverter(SQLConf.get())
                            .convert(reader.getFooter().getFileMetaData().getSchema());
                }
            case "orc":
                try (Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(access))) {
                    return OrcUtils.toCatalystSchema(reader.getSchema());
                }
            default:
                try (FSDataInputStream in = path.getFileSystem(access).open(path);
                        DataFileStream<GenericRecord> reader =
                                new DataFileStream<>(in, new GenericDatumReader<GenericRecord>())) {
                    return SchemaConverters.toSqlType(reader.getSchema(), false, "", depth).dataType();
                }
        }
    }

    private static void unknown(DataType found, DataType declared, String path, List<String> names) {
        if (found instanceof ArrayType && declared instanceof ArrayType) {
            unknown(((ArrayType) found).elementType(), ((ArrayType) declared).elementType(), path, names);
        } else if (found instanceof MapType && declared instanceof MapType) {
            unknown(((MapType) found).valueType(), ((MapType) declared).valueType(), path, names);
        } else if (found instanceof StructType && declared instanceof StructType) {
            for (StructField each : ((StructType) found).fields()) {
                DataType column = column((StructType) declared, each.name());
                if (column == null) {
                    names.add(path + each.name());
                } else {
                    unknown(each.dataType(), column, path + each.name() + ".", names);
                }
            }
        }
    }

    private static DataType column(StructType columns, String name) {
        for (StructField each : columns.fields()) {
            if (each.name().toLowerCase(Locale.ROOT).equals(name.toLowerCase(Locale.ROOT))) {
                return each.dataType();
            }
        }
        return null;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FileFields
                && depth == ((FileFields) other).depth
                && format.equals(((FileFields) other).format)
                && known.equals(((FileFields) other).known);
    }

    @Override
    public int hashCode() {
        return format.hashCode() * 31 + known.hashCode();
    }
}
