package rivermouth.values;

import java.io.ByteArrayOutputStream;

import org.apache.spark.unsafe.types.UTF8String;

/** A value of one line, and how far it is read. In UTF-8 no character's bytes stand within those of others. */
class Cursor {
    final byte[] value;
    int at;

    Cursor(byte[] value) {
        this.value = value;
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
