package rivermouth.json;

import java.math.BigDecimal;
import java.math.MathContext;

import com.fasterxml.jackson.core.io.NumberOutput;

/** Whether a column's type keeps all that a document says: each digit of a number, each part of a second. */
final class Exact {
    /** Every decimal of this many digits is the shortest one for a double. */
    static final int DIGITS_OF_DOUBLE = 15;
    /** The shortest decimal for a double never has more. */
    private static final int MOST_DIGITS_OF_DOUBLE = 17;
    private static final MathContext ONE_DIGIT = new MathContext(1);
    private static final int MICRO_DIGITS = 6;
    private static final int TEN = 10;
    private static final long POWER_OF_DOUBLE = power(DIGITS_OF_DOUBLE);
    private static final long POWER_OF_SHORTEST = power(MOST_DIGITS_OF_DOUBLE);

    private Exact() {}

    /** Whether a double is a number of JSON: the very same, or the one that is written as its shortest text. */
    static boolean isDouble(String text) {
        return isDouble(text, Double.parseDouble(text));
    }

    /** The same, where the double is at hand that is nearest to the number. */
    static boolean isDouble(String text, double nearest) {
        if (nearest == 0) {
            return isZero(text);
        }
        if (Double.isInfinite(nearest)) {
            return false;
        }
        BigDecimal sent = new BigDecimal(text);
        return isShortest(sent, nearest) || sent.compareTo(new BigDecimal(nearest)) == 0;
    }

    /** Whether a number of JSON is the one that is written as the shortest text of the double that is nearest to it. */
    static boolean isShortest(String text) {
        double nearest = Double.parseDouble(text);
        if (nearest == 0) {
            return isZero(text);
        }
        return !Double.isInfinite(nearest) && isShortest(new BigDecimal(text), nearest);
    }

    private static boolean isShortest(BigDecimal sent, double nearest) {
        // Java before 19 sometimes has more digits than are needed.
        BigDecimal text = new BigDecimal(NumberOutput.toString(nearest, true));
        // Of the least doubles of all others write one digit, and Java two: 5e-324, and 4.9E-324.
        return sent.compareTo(text) == 0 || sent.compareTo(text.round(ONE_DIGIT)) == 0;
    }

    /**
     * The same for a number without exponent, other than zero, of no more digits than a long has.
     *
     * @param digits the number without sign and point
     */
    static boolean isDouble(long digits, double nearest) {
        long sent = significant(digits);
        if (sent < POWER_OF_DOUBLE) {
            return true;
        }
        return sent < POWER_OF_SHORTEST && sent == significant(shortest(nearest));
    }

    private static long power(int exponent) {
        long found = 1;
        for (int count = 0; count < exponent; count++) {
            found *= TEN;
        }
        return found;
    }

    /** A number without the zeros at its end. */
    private static long significant(long digits) {
        long found = digits;
        while (found != 0 && found % TEN == 0) {
            found /= TEN;
        }
        return found;
    }

    /** The digits of the shortest text of a double. */
    private static long shortest(double value) {
        String text = NumberOutput.toString(value, true);
        long found = 0;
        for (int at = 0; at < text.length() && text.charAt(at) != 'E'; at++) {
            char each = text.charAt(at);
            if (each >= '0' && each <= '9') {
                found = found * TEN + each - '0';
            }
        }
        return found;
    }

    private static boolean isZero(String text) {
        for (int at = 0; at < text.length(); at++) {
            char each = text.charAt(at);
            if (each == 'e' || each == 'E') {
                return true;
            }
            if (each >= '1' && each <= '9') {
                return false;
            }
        }
        return true;
    }

    /** Whether the text of a time says nothing that is less than a microsecond. */
    static boolean isMicros(String text) {
        int first = text.indexOf('.') + 1;
        if (first == 0) {
            return true;
        }
        for (int at = first; at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9'; at++) {
            if (at - first >= MICRO_DIGITS && text.charAt(at) != '0') {
                return false;
            }
        }
        return true;
    }
}
