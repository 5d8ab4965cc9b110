package rivermouth.values;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A value that a regular expression matches as a whole: the text of each named group, null where it took no part.
 *
 * <p>Java tries alternatives without end where a pattern lets it, and as deep as its stack goes: what a match may look
 * at is counted, and a stack that ends is the value's end and not the task's.
 */
public final class Regex extends Step {
    private static final long serialVersionUID = 1;
    private static final int READS_PER_CHARACTER = 10;
    // Names of groups are letters and digits to Java, names of columns have other signs too.
    private static final Pattern NAME = Pattern.compile(
            "\\\\Q.*?(?:\\\\E|\\z)|\\\\k<([^<>]+)>|\\\\c?.|\\(\\?<(?![=!])([^<>()\\\\\\[\\]]+)>", Pattern.DOTALL);

    private final String pattern;
    private final List<String> columns;
    private final int maxReads;

    private transient volatile Pattern compiled;
    private transient volatile String[] groups;

    /**
     * A pattern of one flow.
     *
     * @param pattern with a group for each column, and no other named group
     * @param columns their names
     * @param maxReads how many characters may be read for one value, in addition to ten times those that it has
     * @throws IllegalArgumentException the pattern cannot be read, or its groups are not the columns
     */
    public Regex(String pattern, List<String> columns, int maxReads) {
        this.pattern = pattern;
        this.columns = List.copyOf(columns);
        this.maxReads = maxReads;
        compile();
    }

    @Override
    Object of(byte[] value) {
        checkUtf8(value);
        if (groups == null) {
            compile();
        }
        String text = new String(value, StandardCharsets.UTF_8);
        Matcher matcher = compiled.matcher(new Counted(text, maxReads + (long) READS_PER_CHARACTER * text.length()));
        try {
            if (!matcher.matches()) {
                throw new Refused("NO_MATCH", "the pattern does not match the value as a whole");
            }
        } catch (StackOverflowError error) {
            throw new Refused("TOO_DEEP", "the pattern nests deeper on the value than Java's stack goes");
        }
        Object[] found = new Object[groups.length];
        for (int place = 0; place < groups.length; place++) {
            int begin = matcher.start(groups[place]);
            found[place] = begin < 0 ? null : UTF8String.fromString(text.substring(begin, matcher.end(groups[place])));
        }
        return new GenericArrayData(found);
    }

    @Override
    DataType type() {
        return DataTypes.createArrayType(DataTypes.StringType, true);
    }

    @Override
    List<Object> key() {
        return List.of(pattern, columns, maxReads);
    }

    private void compile() {
        Map<String, String> names = new LinkedHashMap<>();
        // By how much everything behind a place has moved, and that place.
        List<int[]> moves = new ArrayList<>();
        String renamed = NAME.matcher(pattern).replaceAll(found -> {
            String name = found.group(1) == null ? found.group(2) : found.group(1);
            if (name == null) {
                return Matcher.quoteReplacement(found.group());
            }
            if (found.group(1) == null && names.containsKey(name)) {
                throw new IllegalArgumentException("it has two groups of the name " + name);
            }
            String group = names.computeIfAbsent(name, each -> "g" + names.size());
            String written = (found.group(1) == null ? "(?<" : "\\k<") + group + ">";
            int moved = moves.isEmpty() ? 0 : moves.get(moves.size() - 1)[0];
            moves.add(new int[] {moved + found.group().length() - written.length(), found.start() - moved});
            return Matcher.quoteReplacement(written);
        });
        Pattern whole = compiled(renamed, names, moves);
        for (Map.Entry<String, String> name : names.entrySet()) {
            if (!columns.contains(name.getKey())) {
                throw new IllegalArgumentException("its group " + name.getKey() + " is no column of the schema");
            }
            checkIsGroup(renamed, name);
        }
        List<String> found = new ArrayList<>();
        for (String column : columns) {
            if (!names.containsKey(column)) {
                throw new IllegalArgumentException("it has no group for the column " + column);
            }
            found.add(names.get(column));
        }
        compiled = whole;
        groups = found.toArray(String[]::new);
    }

    private static Pattern compiled(String renamed, Map<String, String> names, List<int[]> moves) {
        try {
            return Pattern.compile(renamed);
        } catch (PatternSyntaxException error) {
            String why = error.getDescription();
            for (Map.Entry<String, String> name : names.entrySet()) {
                why = why.replace("<" + name.getValue() + ">", "<" + name.getKey() + ">");
            }
            int place = error.getIndex();
            int moved = 0;
            for (int[] move : moves) {
                moved = place > move[1] ? move[0] : moved;
            }
            String near = place < 0 ? "" : ", near character " + (place + moved + 1);
            throw new IllegalArgumentException("it cannot be read: " + why + near);
        } catch (StackOverflowError error) {
            throw new IllegalArgumentException("it cannot be read: it nests too deeply");
        }
    }

    /** What looks like a group may stand within a class of characters or a quotation, and be none. */
    private static void checkIsGroup(String renamed, Map.Entry<String, String> name) {
        try {
            Pattern.compile(renamed + "\n\\k<" + name.getValue() + ">");
        } catch (PatternSyntaxException error) {
            throw new IllegalArgumentException(
                    "(?<" + name.getKey() + "> is no group here: write \\(\\?< for these signs");
        }
    }

    /** A text that is looked at so often, and no more. */
    private static final class Counted implements CharSequence {
        private final String text;
        private long left;

        Counted(String text, long reads) {
            this.text = text;
            this.left = reads;
        }

        @Override
        public char charAt(int index) {
            if (--left < 0) {
                throw new Refused("TOO_MANY_READS", "the pattern looked at the value's characters too often");
            }
            return text.charAt(index);
        }

        @Override
        public int length() {
            return text.length();
        }

        @Override
        public CharSequence subSequence(int begin, int end) {
            return text.substring(begin, end);
        }

        @Override
        public String toString() {
            return text;
        }
    }
}
