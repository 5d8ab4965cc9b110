package rivermouth.internals.files;

import java.io.IOException;
import java.io.Serializable;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.charset.Charset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;

import com.univocity.parsers.common.TextParsingException;
import com.univocity.parsers.csv.CsvParser;
import com.univocity.parsers.csv.CsvParserSettings;
import com.univocity.parsers.csv.UnescapedQuoteHandling;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.csv.CSVOptions;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of whole CSV files, taken apart by Spark's own parser, their fields found by the names in each file's header.
 *
 * <p>Spark's source takes the fields of all files by their position.
 */
public final class CsvRows implements Serializable {
    private static final long serialVersionUID = 1;
    private static final Pattern LINES = Pattern.compile("\r\n|\n|\r");
    private static final int MOST_COLUMNS = 1 << 20;

    private final HashMap<String, String> options;
    private final ArrayList<String> columns;
    private final boolean named;
    private final boolean exactCase;
    private transient CSVOptions read;

    /**
     * Of one source.
     *
     * @param options of Spark's CSV reader
     * @param columns names of the columns, in their order
     * @param named whether fields are found by name: that of the header, or {@code _c0, _c1 ...} where there is none;
     *     else by position
     * @param exactCase whether names that differ in case are different
     */
    public CsvRows(Map<String, String> options, List<String> columns, boolean named, boolean exactCase) {
        this.options = new HashMap<>(options);
        this.columns = new ArrayList<>(columns);
        this.named = named;
        this.exactCase = exactCase;
        read();
    }

    /**
     * Of a binary column with the contents of files: an array, a struct for each row. {@code texts} has a text or null
     * for each column; {@code others} is a JSON object from JSON pointers to the fields that are no column, or null;
     * {@code corrupt} is the text of a row that cannot be taken apart, or null; {@code uneven} says whether it has more
     * or fewer fields than the header, or without one than the columns by position.
     */
    public Column of(String column) {
        StructField[] fields = {
            DataTypes.createStructField("texts", DataTypes.createArrayType(DataTypes.StringType), false),
            DataTypes.createStructField("others", DataTypes.StringType, true),
            DataTypes.createStructField("corrupt", DataTypes.StringType, true),
            DataTypes.createStructField("uneven", DataTypes.BooleanType, false),
        };
        return Calls.once(
                this, "rows", DataTypes.createArrayType(DataTypes.createStructType(fields), false), true, column);
    }

    /** Of a binary column with the contents of files: the names in the header, or {@code _c0, _c1 ...}. */
    public Column header(String column) {
        return Calls.once(this, "names", DataTypes.createArrayType(DataTypes.StringType, false), true, column);
    }

    /** For Spark: the rows of a file. */
    public ArrayData rows(byte[] file) {
        if (file == null) {
            return null;
        }
        Source source = new Source(file);
        List<InternalRow> found = new ArrayList<>();
        Header header = null;
        boolean inHeader = read().headerFlag();
        for (Found each = source.next(); each != null; each = source.next()) {
            if (header == null && each.tokens != null) {
                header = new Header(each.tokens, inHeader);
                if (inHeader) {
                    continue;
                }
            }
            found.add(each.tokens == null ? corrupt(each.text) : header.row(each.tokens));
        }
        return new GenericArrayData(found.toArray());
    }

    /** For Spark: the names of a file's fields. */
    public ArrayData names(byte[] file) {
        if (file == null) {
            return null;
        }
        Source source = new Source(file);
        Found first = source.next();
        while (first != null && first.tokens == null) {
            first = source.next();
        }
        List<Object> found = new ArrayList<>();
        if (first != null) {
            for (String name : fieldNames(first.tokens, read().headerFlag())) {
                found.add(UTF8String.fromString(name));
            }
        }
        return new GenericArrayData(found.toArray());
    }

    private CSVOptions read() {
        if (read == null) {
            read = new CSVOptions(
                    scala.collection.immutable.Map.from(CollectionConverters.asScala(options)), false, "UTC");
        }
        return read;
    }

    private InternalRow corrupt(String text) {
        return row(new Object[columns.size()], null, text, true);
    }

    private static InternalRow row(Object[] texts, String others, String corrupt, boolean uneven) {
        return new GenericInternalRow(new Object[] {
            new GenericArrayData(texts), UTF8String.fromString(others), UTF8String.fromString(corrupt), uneven});
    }

    /** As Spark names them: by position where there is no name, and with the position behind a name that is twice there. */
    private List<String> fieldNames(String[] tokens, boolean inHeader) {
        Map<String, Integer> times = new HashMap<>();
        for (String each : tokens) {
            times.merge(folded(each == null ? "" : each), 1, Integer::sum);
        }
        List<String> found = new ArrayList<>();
        for (int place = 0; place < tokens.length; place++) {
            String each = tokens[place];
            if (!inHeader || each == null || each.isEmpty() || each.equals(read().nullValue())) {
                found.add("_c" + place);
            } else {
                found.add(times.get(folded(each)) > 1 ? each + place : each);
            }
        }
        return found;
    }

    private static String folded(String name) {
        return name.toLowerCase(Locale.ROOT);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof CsvRows
                && options.equals(((CsvRows) other).options)
                && columns.equals(((CsvRows) other).columns)
                && named == ((CsvRows) other).named
                && exactCase == ((CsvRows) other).exactCase;
    }

    @Override
    public int hashCode() {
        return options.hashCode() * 31 + columns.hashCode();
    }

    /** The fields of a row, or its text where it cannot be taken apart. */
    private static final class Found {
        final String[] tokens;
        final String text;

        Found(String[] tokens, String text) {
            this.tokens = tokens;
            this.text = text;
        }
    }

    /** Which column each field of a file is. */
    private final class Header {
        private final List<String> names;
        private final Map<String, Integer> known = new HashMap<>();
        private final int[] places;
        private final boolean inHeader;
        private final int width;

        Header(String[] tokens, boolean inHeader) {
            names = fieldNames(tokens, inHeader);
            this.inHeader = inHeader;
            // By position, a file without a header has as many fields as there are columns.
            width = named || inHeader ? names.size() : columns.size();
            for (int place = 0; place < columns.size(); place++) {
                known.putIfAbsent(key(columns.get(place)), place);
            }
            places = names.stream().mapToInt(each -> known.getOrDefault(key(each), -1)).toArray();
        }

        /** The column of a field; -1 where there is none. Rows may be longer than the header or the first row. */
        private int column(int place) {
            if (!named) {
                return place < columns.size() ? place : -1;
            }
            if (place < places.length) {
                return places[place];
            }
            return inHeader ? -1 : known.getOrDefault(key(name(place)), -1);
        }

        private String name(int place) {
            return place < names.size() ? names.get(place) : "_c" + place;
        }

        private String key(String name) {
            return exactCase ? name : folded(name);
        }

        InternalRow row(String[] tokens) {
            Object[] texts = new Object[columns.size()];
            Map<String, String> others = new LinkedHashMap<>();
            for (int place = 0; place < tokens.length; place++) {
                String each = tokens[place];
                if (each == null || each.equals(read().nullValue())) {
                    continue;
                }
                int column = column(place);
                if (column >= 0 && texts[column] == null) {
                    texts[column] = UTF8String.fromString(each);
                } else {
                    others.put(name(place), each);
                }
            }
            return CsvRows.row(texts, json(others), null, tokens.length != width);
        }
    }

    private static String json(Map<String, String> others) {
        if (others.isEmpty()) {
            return null;
        }
        StringBuilder out = new StringBuilder();
        char between = '{';
        for (Map.Entry<String, String> each : others.entrySet()) {
            String pointer = "/" + each.getKey().replace("~", "~0").replace("/", "~1");
            out.append(between).append(Rescued.quoted(pointer)).append(':').append(Rescued.quoted(each.getValue()));
            between = ',';
        }
        return out.append('}').toString();
    }

    /** A file's rows, one after the other: line by line, or across lines where fields may hold line breaks. */
    private final class Source {
        private final CsvParser parser;
        private final String[] lines;
        private final String text;
        private int at;
        private int begun;
        private CsvParser patient;

        Source(byte[] file) {
            boolean separated = read().lineSeparatorInRead().isDefined();
            parser = new CsvParser(settings());
            String whole = new String(file, Charset.forName(read().charset()));
            if (whole.startsWith("\uFEFF")) {
                whole = whole.substring(1);
            }
            text = read().multiLine() ? whole : null;
            if (read().multiLine()) {
                parser.beginParsing(new StringReader(text));
                lines = null;
                return;
            }
            Pattern between = separated ? Pattern.compile(Pattern.quote(read().lineSeparator().get())) : LINES;
            lines = between.split(whole, -1);
        }

        private CsvParserSettings settings() {
            CsvParserSettings settings = read().asParserSettings();
            settings.setLineSeparatorDetectionEnabled(read().lineSeparatorInRead().isEmpty());
            return settings;
        }

        Found next() {
            if (lines == null) {
                return nextInStream();
            }
            while (at < lines.length) {
                String line = lines[at++];
                if (line.isBlank() || read().isCommentSet() && line.charAt(0) == read().comment()) {
                    continue;
                }
                try {
                    return new Found(parser.parseLine(line), line);
                } catch (TextParsingException broken) {
                    return new Found(null, line);
                }
            }
            return null;
        }

        private Found nextInStream() {
            if (begun >= text.length()) {
                return null;
            }
            int before = begun + (int) parser.getContext().currentChar();
            try {
                String[] tokens = parser.parseNext();
                return tokens == null ? null : new Found(tokens, null);
            } catch (TextParsingException broken) {
                parser.stopParsing();
                return new Found(null, passed(before));
            }
        }

        /** The text of a record that the parser cannot take apart; it goes on behind it. */
        private String passed(int from) {
            int end = text.length();
            if (patient == null) {
                patient = patient();
            }
            patient.beginParsing(from(from));
            try {
                patient.parseNext();
                end = Math.min(end, from + (int) patient.getContext().currentChar());
            } catch (TextParsingException broken) {
                // Where the record ends cannot be known: it has the rest of the file.
            }
            patient.stopParsing();
            end = end > from ? end : text.length();
            begun = end;
            parser.beginParsing(from(end));
            return text.substring(from, end).strip();
        }

        private StringReader from(int place) {
            StringReader found = new StringReader(text);
            try {
                found.skip(place);
            } catch (IOException never) {
                throw new UncheckedIOException(never);
            }
            return found;
        }

        /** A parser that finds the end of each record, however long it is and whatever quotes are in its fields. */
        private CsvParser patient() {
            CsvParserSettings settings = settings();
            settings.setMaxCharsPerColumn(-1);
            settings.setMaxColumns(MOST_COLUMNS);
            settings.setUnescapedQuoteHandling(UnescapedQuoteHandling.STOP_AT_DELIMITER);
            return new CsvParser(settings);
        }
    }
}
