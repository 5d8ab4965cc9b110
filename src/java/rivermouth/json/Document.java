package rivermouth.json;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

import org.apache.spark.unsafe.types.UTF8String;

/**
 * The bytes of a document while they are read: the grammar of JSON (RFC 8259), and nothing else.
 *
 * <p>Whatever is no JSON, or JSON that readers disagree about, is {@link NotCertain}.
 */
final class Document {
    /** Longer ones may be refused by Spark's parser. */
    private static final int MAX_NUMBER = 300;
    private static final int MAX_NAME = 10_000;
    private static final int MAX_STRING = 20_000_000;
    static final int MAX_DEPTH = 200;
    private static final int FIRST_PRINTABLE = 0x20;
    private static final int HEX_DIGITS = 4;
    private static final int HEX = 16;
    /** A long has no more. */
    private static final int LONG_DIGITS = 19;
    private static final int TEN = 10;
    private static final byte[] TRUE = "true".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] FALSE = "false".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NULL = "null".getBytes(StandardCharsets.US_ASCII);

    final byte[] bytes;
    /** The place of the byte that is read next. */
    int at;
    /** Whether there was a field that its struct does not declare. */
    boolean others;

    /** The number that was read last: its digits without sign and point; meaningless if there are more than 19. */
    long digits;
    /** How many digits it has, those behind the point included and zeros before the first other one too. */
    int length;
    /** How many of them stand behind the point. */
    int scale;
    boolean negative;
    /** Whether it has neither a point nor an exponent. */
    boolean whole;
    /** Whether it has an exponent. */
    boolean exponent;

    Document(byte[] bytes) {
        this.bytes = bytes;
        int all = 0;
        for (byte each : bytes) {
            all |= each;
        }
        if (all < 0 && !UTF8String.fromBytes(bytes).isValid()) {
            throw NotCertain.IT_IS;
        }
    }

    byte here() {
        if (at >= bytes.length) {
            throw NotCertain.IT_IS;
        }
        return bytes[at];
    }

    boolean isEnd() {
        return at == bytes.length;
    }

    void blanks() {
        while (at < bytes.length) {
            byte each = bytes[at];
            if (each != ' ' && each != '\n' && each != '\r' && each != '\t') {
                return;
            }
            at++;
        }
    }

    void take(char sign) {
        if (here() != sign) {
            throw NotCertain.IT_IS;
        }
        at++;
    }

    /** Whether a sign comes next; if so, goes behind it. */
    boolean took(char sign) {
        if (here() != sign) {
            return false;
        }
        at++;
        return true;
    }

    /** Whether null comes next; if so, goes behind it. */
    boolean tookNull() {
        if (here() != 'n') {
            return false;
        }
        nothing();
        return true;
    }

    /** Goes behind null. */
    void nothing() {
        word(NULL);
    }

    boolean bool() {
        boolean found = here() == 't';
        word(found ? TRUE : FALSE);
        return found;
    }

    private void word(byte[] word) {
        if (!stands(word)) {
            throw NotCertain.IT_IS;
        }
        at += word.length;
    }

    boolean stands(byte[] word) {
        if (bytes.length - at < word.length) {
            return false;
        }
        for (int place = 0; place < word.length; place++) {
            if (bytes[at + place] != word[place]) {
                return false;
            }
        }
        return true;
    }

    /** Behind a colon, at the value of a member. */
    void colon() {
        blanks();
        take(':');
        blanks();
    }

    /** Whether there is another member or element, behind a comma; if not, the object or array is closed. */
    boolean more(char close) {
        blanks();
        if (took(',')) {
            blanks();
            return true;
        }
        take(close);
        return false;
    }

    /** Reads a string; between its quotes are the bytes of its text, if none is escaped. Its opening quote is here. */
    boolean string() {
        take('"');
        boolean plain = true;
        // A local one, for speed: a field would be written at each byte.
        int place = at;
        while (place < bytes.length) {
            byte each = bytes[place];
            if (each == '"') {
                at = place + 1;
                return plain;
            }
            if (each == '\\') {
                plain = false;
                at = place;
                escape(null);
                place = at;
            } else if (each >= 0 && each < FIRST_PRINTABLE) {
                throw NotCertain.IT_IS;
            } else {
                place++;
            }
        }
        throw NotCertain.IT_IS;
    }

    /** The place of the first byte of a string that has no escapes; its end is one before {@code at}. */
    int plainString() {
        int begin = at + 1;
        if (!string()) {
            throw NotCertain.IT_IS;
        }
        return begin;
    }

    UTF8String text() {
        int begin = at + 1;
        boolean plain = string();
        if (at - 1 - begin > MAX_STRING) {
            throw NotCertain.IT_IS;
        }
        return plain ? UTF8String.fromBytes(bytes, begin, at - 1 - begin) : unescaped(begin, at - 1);
    }

    UTF8String name() {
        int begin = at;
        UTF8String found = text();
        checkName(begin);
        return found;
    }

    /** Goes behind a name; whether it has no escapes. */
    boolean plainName() {
        int begin = at;
        boolean plain = string();
        checkName(begin);
        return plain;
    }

    private void checkName(int begin) {
        if (at - begin > MAX_NAME) {
            throw NotCertain.IT_IS;
        }
    }

    private UTF8String unescaped(int begin, int end) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(end - begin);
        int behind = at;
        at = begin;
        while (at < end) {
            if (bytes[at] == '\\') {
                escape(out);
            } else {
                out.write(bytes[at++]);
            }
        }
        at = behind;
        return UTF8String.fromBytes(out.toByteArray());
    }

    /** Reads an escape; half a character without the other half is unsure. */
    private void escape(ByteArrayOutputStream out) {
        at++;
        byte sign = here();
        at++;
        if (sign == 'u') {
            char first = unit();
            String found = String.valueOf(first);
            if (Character.isSurrogate(first)) {
                take('\\');
                take('u');
                char second = unit();
                if (!Character.isSurrogatePair(first, second)) {
                    throw NotCertain.IT_IS;
                }
                found += second;
            }
            if (out != null) {
                out.writeBytes(found.getBytes(StandardCharsets.UTF_8));
            }
            return;
        }
        int place = "\"\\/bfnrt".indexOf(sign);
        if (place < 0) {
            throw NotCertain.IT_IS;
        }
        if (out != null) {
            out.write("\"\\/\b\f\n\r\t".charAt(place));
        }
    }

    private char unit() {
        int found = 0;
        for (int count = 0; count < HEX_DIGITS; count++) {
            byte digit = here();
            int worth = digit < 0 ? -1 : Character.digit(digit, HEX);
            if (worth < 0) {
                throw NotCertain.IT_IS;
            }
            found = found * HEX + worth;
            at++;
        }
        return (char) found;
    }

    /** Reads a number. */
    void number() {
        int begin = at;
        digits = 0;
        length = 0;
        scale = 0;
        exponent = false;
        negative = took('-');
        if (here() == '0') {
            at++;
            length = 1;
        } else {
            digits();
        }
        if (at < bytes.length && bytes[at] == '.') {
            at++;
            int before = length;
            digits();
            scale = length - before;
        }
        if (at < bytes.length && (bytes[at] == 'e' || bytes[at] == 'E')) {
            at++;
            exponent = true;
            if (here() == '+' || here() == '-') {
                at++;
            }
            int first = at;
            while (at < bytes.length && isDigit(bytes[at])) {
                at++;
            }
            if (at == first) {
                throw NotCertain.IT_IS;
            }
        }
        whole = scale == 0 && !exponent;
        if (at - begin > MAX_NUMBER) {
            throw NotCertain.IT_IS;
        }
    }

    private void digits() {
        int first = at;
        int place = first;
        long found = digits;
        while (place < bytes.length && isDigit(bytes[place])) {
            found = found * TEN + (bytes[place] - '0');
            place++;
        }
        if (place == first) {
            throw NotCertain.IT_IS;
        }
        at = place;
        digits = found;
        length += place - first;
    }

    private static boolean isDigit(byte each) {
        return each >= '0' && each <= '9';
    }

    /** Whether the number that was read last is a whole one in the range of a long. */
    boolean isLong() {
        // Of 19 digits they are right as an unsigned number.
        return whole && length <= LONG_DIGITS && (digits >= 0 || negative && digits == Long.MIN_VALUE);
    }

    /** The whole number that was read last. */
    long wholeNumber() {
        if (!isLong()) {
            throw NotCertain.IT_IS;
        }
        return negative ? -digits : digits;
    }

    /** Whether the number that was read last has so few digits behind the point; zeros at its end are taken away. */
    boolean shorten(int most) {
        while (scale > most && digits % TEN == 0) {
            digits /= TEN;
            scale--;
        }
        return scale <= most;
    }

    /** Reads a value that nobody asked for. */
    void skip() {
        skip(0);
    }

    private void skip(int depth) {
        if (depth > MAX_DEPTH) {
            throw NotCertain.IT_IS;
        }
        switch (here()) {
            case '"':
                string();
                break;
            case '{':
                at++;
                blanks();
                boolean members = !took('}');
                while (members) {
                    plainName();
                    colon();
                    skip(depth + 1);
                    members = more('}');
                }
                break;
            case '[':
                at++;
                blanks();
                boolean items = !took(']');
                while (items) {
                    skip(depth + 1);
                    items = more(']');
                }
                break;
            case 't':
            case 'f':
                bool();
                break;
            case 'n':
                nothing();
                break;
            default:
                number();
        }
    }
}
