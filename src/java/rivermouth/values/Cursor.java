package rivermouth.values;

import java.io.ByteArrayOutputStream;
import java.util.Arrays;

import org.apache.spark.unsafe.types.UTF8String;

/** A value of one line, and how far it is read. In UTF-8 no character's bytes stand within those of others. */
abstract class Cursor {
    final byte[] value;
    int at;

    private final LineStep step;
    private final String part;
    private final boolean doubles;

    /**
     * At the beginning of a value.
     *
     * @param value is read
     * @param step knows the separator, the quote and the escape
     * @param part what a part of the line is called where it is refused
     */
    Cursor(byte[] value, LineStep step, String part) {
        this.value = value;
        this.step = step;
        this.part = part;
        this.doubles = Arrays.equals(step.quote, step.escape);
    }

    /** The column of the part that is read; null if it has none. */
    abstract String name();

    /** Writes what comes after an escape, at this place, and returns where that ends. */
    abstract int escaped(int place, ByteArrayOutputStream out);

    /** The text of the part that begins with a quote here; then the part ends. */
    final UTF8String quoted() {
        byte[] quote = step.quote;
        at += quote.length;
        int begin = at;
        ByteArrayOutputStream before = null;
        while (true) {
            if (at >= value.length) {
                throw Refused.line(name(), "a quoted " + part + " is not closed");
            }
            if (isEscape(at)) {
                before = kept(before, begin, at);
                at = escaped(at + step.escape.length, before);
                begin = at;
            } else if (!stands(quote, at)) {
                at++;
            } else if (doubles && stands(quote, at + quote.length)) {
                before = kept(before, begin, at + quote.length);
                at += 2 * quote.length;
                begin = at;
            } else {
                break;
            }
        }
        UTF8String text = text(before, begin, at);
        at += quote.length;
        if (!isEnd() && !stands(step.separator, at)) {
            throw Refused.line(name(), "something follows the closing quote of a " + part);
        }
        return text;
    }

    /** Whether an escape that is not the quote is at this place. */
    final boolean isEscape(int place) {
        return !doubles && stands(step.escape, place);
    }

    final boolean stands(byte[] sign, int place) {
        if (sign.length == 0 || place + sign.length > value.length || value[place] != sign[0]) {
            return false;
        }
        for (int index = 1; index < sign.length; index++) {
            if (value[place + index] != sign[index]) {
                return false;
            }
        }
        return true;
    }

    /** Whether the line ends here. */
    final boolean isEnd() {
        return at >= value.length || value[at] == '\n' || value[at] == '\r';
    }

    /** One line end may stand behind the line, and nothing behind that. */
    final void end() {
        int left = value.length - at;
        boolean isOne = left == 1 || left == 2 && value[at] == '\r' && value[at + 1] == '\n';
        if (left > 0 && !isOne) {
            throw Refused.line(null, "the value has more than one line");
        }
    }

    /** The refusal of an escape before something that may not be escaped. */
    final Refused wronglyEscaped() {
        return Refused.line(name(), "an escape comes before something that is not to be escaped");
    }

    /** A part of the value behind what was kept before. */
    final ByteArrayOutputStream kept(ByteArrayOutputStream before, int begin, int end) {
        ByteArrayOutputStream all = before == null ? new ByteArrayOutputStream() : before;
        all.write(value, begin, end - begin);
        return all;
    }

    final UTF8String text(ByteArrayOutputStream before, int begin, int end) {
        if (before == null) {
            return UTF8String.fromBytes(value, begin, end - begin);
        }
        return UTF8String.fromBytes(kept(before, begin, end).toByteArray());
    }
}
