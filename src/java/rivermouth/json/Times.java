package rivermouth.json;

import rivermouth.types.Limits;

/** Dates and times as ISO 8601 has them, of the years 1 to 9999; every other form is unsure. */
final class Times {
    private static final int DATE = "2026-01-31".length();
    private static final int MINUTES = "2026-01-31T10:00".length();
    private static final int SECONDS = "2026-01-31T10:00:00".length();
    private static final int MICRO_DIGITS = 6;
    private static final int MOST_DIGITS = 9;
    /** Spark takes up to 18:00. */
    private static final int LAST_OFFSET_HOUR = 17;
    private static final int LAST_HOUR = 23;
    private static final int LAST_MINUTE = 59;
    private static final long SECOND = 1_000_000;
    private static final long MINUTE = 60 * SECOND;
    private static final long HOUR = 60 * MINUTE;
    private static final long DAY = 24 * HOUR;
    private static final int TEN = 10;
    // Howard Hinnant, chrono-compatible low-level date algorithms: days_from_civil.
    private static final int ERA_YEARS = 400;
    private static final int ERA_DAYS = 146_097;
    private static final int EPOCH_DAY = 719_468;
    private static final int YEAR_DAYS = 365;
    private static final int LEAP = 4;
    private static final int CENTURY = 100;
    private static final int FEBRUARY = 2;
    private static final int[] MONTH_DAYS = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    private Times() {}

    /** Days since 1970 of a date that fills the bytes from {@code begin} to {@code end}. */
    static int date(byte[] in, int begin, int end) {
        if (end - begin != DATE) {
            throw NotCertain.IT_IS;
        }
        return day(in, begin);
    }

    /**
     * Microseconds since 1970 of a date with or without a time of day in whole seconds or parts of them.
     *
     * @param zoned whether an offset or Z may follow
     * @param local whether neither may follow, which is read as UTC
     * @param exact whether nothing may be less than a microsecond
     */
    static long time(byte[] in, int begin, int end, boolean zoned, boolean local, boolean exact) {
        if (end - begin == DATE && local) {
            return day(in, begin) * DAY;
        }
        sign(end - begin >= MINUTES);
        int at = begin + DATE;
        sign(in[at] == 'T' || in[at] == ' ');
        sign(in[at + 3] == ':');
        long micros = day(in, begin) * DAY
                + two(in, at + 1, LAST_HOUR) * HOUR
                + two(in, at + 4, LAST_MINUTE) * MINUTE;
        at = begin + MINUTES;
        if (end - begin >= SECONDS && in[at] == ':') {
            micros += two(in, at + 1, LAST_MINUTE) * SECOND;
            at = begin + SECONDS;
        }
        if (at == begin + SECONDS && at < end && in[at] == '.') {
            int first = ++at;
            int parts = 0;
            while (at < end && in[at] >= '0' && in[at] <= '9') {
                // What is less than a microsecond is cut off, as Spark does.
                boolean less = at - first >= MICRO_DIGITS;
                sign(!(exact && less && in[at] != '0'));
                parts = less ? parts : parts * TEN + in[at] - '0';
                at++;
            }
            sign(at > first && at - first <= MOST_DIGITS);
            for (int place = at - first; place < MICRO_DIGITS; place++) {
                parts *= TEN;
            }
            micros += parts;
        }
        if (at == end) {
            sign(local);
            return micros;
        }
        sign(zoned);
        long instant = micros - offset(in, at, withoutZone(in, at, end));
        sign(Limits.isTime(instant));
        return instant;
    }

    /** The same of those forms that Spark's parser has: a date alone, or with seconds, and no name of a zone. */
    static long timeOfSpark(byte[] in, int begin, int end, boolean zoned, boolean local) {
        sign(end - begin == DATE || end - begin >= SECONDS && in[begin + MINUTES] == ':' && in[end - 1] != ']');
        return time(in, begin, end, zoned, local, false);
    }

    /** The end of an offset without the name of a zone in brackets behind it: the offset alone says the instant. */
    private static int withoutZone(byte[] in, int at, int end) {
        if (in[end - 1] != ']') {
            return end;
        }
        int bracket = at;
        while (in[bracket] != '[') {
            bracket++;
            sign(bracket < end);
        }
        // An offset before it, and a name in it.
        sign(bracket > at && bracket < end - 2);
        for (int place = bracket + 1; place < end - 1; place++) {
            byte each = in[place];
            boolean letter = each >= 'a' && each <= 'z' || each >= 'A' && each <= 'Z' || each == '_';
            boolean other = each >= '0' && each <= '9' || each == '/' || each == '+' || each == '-' || each == '.';
            sign(letter || other);
        }
        return bracket;
    }

    /** Z, or hours and minutes with a colon or without, or hours alone. */
    private static long offset(byte[] in, int at, int end) {
        int length = end - at;
        if (in[at] == 'Z' && length == 1) {
            return 0;
        }
        boolean colon = length == "+01:00".length() && in[at + 3] == ':';
        sign((in[at] == '+' || in[at] == '-') && (colon || length == "+0100".length() || length == "+01".length()));
        long found = two(in, at + 1, LAST_OFFSET_HOUR) * HOUR;
        if (length > "+01".length()) {
            found += two(in, end - 2, LAST_MINUTE) * MINUTE;
        }
        sign(found > 0 || in[at] == '+');
        return in[at] == '+' ? found : -found;
    }

    private static int day(byte[] in, int at) {
        sign(in[at + 4] == '-' && in[at + 7] == '-');
        int year = two(in, at, CENTURY) * CENTURY + two(in, at + 2, CENTURY);
        int month = two(in, at + 5, MONTH_DAYS.length);
        int day = two(in, at + 8, MONTH_DAYS[Math.max(month, 1) - 1]);
        boolean leap = year % LEAP == 0 && (year % CENTURY != 0 || year % ERA_YEARS == 0);
        sign(year > 0 && month > 0 && day > 0 && (month != FEBRUARY || leap || day < MONTH_DAYS[FEBRUARY - 1]));
        int shifted = month > FEBRUARY ? year : year - 1;
        int era = shifted / ERA_YEARS;
        int yearOfEra = shifted % ERA_YEARS;
        int dayOfYear = (153 * (month > FEBRUARY ? month - 3 : month + 9) + 2) / 5 + day - 1;
        int dayOfEra = yearOfEra * YEAR_DAYS + yearOfEra / LEAP - yearOfEra / CENTURY + dayOfYear;
        return era * ERA_DAYS + dayOfEra - EPOCH_DAY;
    }

    private static int two(byte[] in, int at, int most) {
        int tens = in[at] - '0';
        int ones = in[at + 1] - '0';
        int found = tens * TEN + ones;
        sign(tens >= 0 && tens < TEN && ones >= 0 && ones < TEN && found <= most);
        return found;
    }

    private static void sign(boolean isThere) {
        if (!isThere) {
            throw NotCertain.IT_IS;
        }
    }
}
