package rivermouth.values;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.IllegalCharsetNameException;
import java.nio.charset.StandardCharsets;
import java.nio.charset.UnsupportedCharsetException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The characters of an XML document, by its byte order mark or by what it says of itself
 * (https://www.w3.org/TR/xml/#sec-guessing). The JDK's parser prints what it cannot decode.
 */
final class XmlEncoding {
    private static final String NAME = "[A-Za-z][A-Za-z0-9._-]{0,40}";
    private static final Pattern DECLARED = Pattern.compile("<\\?xml\\s{1,9}version" + set("1[.][0-9]{1,9}")
            + "(?:\\s{1,9}encoding" + set("(?<%s>" + NAME + ")") + ")?"
            + "(?:\\s{1,9}standalone" + set("(?:yes|no)") + ")?\\s{0,9}\\?>");
    private static final Pattern BEGUN = Pattern.compile("<\\?xml\\s");
    private static final int DECLARATION = 200;
    private static final char MARK = '\ufeff';

    private XmlEncoding() {}

    /** Of something that is set to this, between quotes of either kind. */
    private static String set(String value) {
        return "\\s{0,9}=\\s{0,9}(?:\"" + value.replace("%s", "one") + "\"|'" + value.replace("%s", "other") + "')";
    }

    static String decoded(byte[] value) {
        Charset charset = charset(value);
        try {
            String text = charset.newDecoder().decode(ByteBuffer.wrap(value)).toString();
            String found = !text.isEmpty() && text.charAt(0) == MARK ? text.substring(1) : text;
            // The JDK's parser takes any text for the name of an encoding.
            if (BEGUN.matcher(found).lookingAt() && !DECLARED.matcher(found).lookingAt()) {
                throw new Refused("INVALID_XML", "the value has an XML declaration that is none");
            }
            return found;
        } catch (CharacterCodingException broken) {
            boolean utf8 = charset.equals(StandardCharsets.UTF_8);
            throw utf8
                    ? new Refused("INVALID_UTF8", "the value is not valid UTF-8")
                    : new Refused("INVALID_XML", "the value is not in the encoding that it names");
        }
    }

    private static Charset charset(byte[] value) {
        if (begins(value, 0xfe, 0xff) || begins(value, 0xff, 0xfe)) {
            return StandardCharsets.UTF_16;
        }
        if (begins(value, 0, '<')) {
            return StandardCharsets.UTF_16BE;
        }
        if (begins(value, '<', 0)) {
            return StandardCharsets.UTF_16LE;
        }
        String begin = new String(value, 0, Math.min(value.length, DECLARATION), StandardCharsets.ISO_8859_1);
        if (begin.startsWith("\u00ef\u00bb\u00bf")) {
            return StandardCharsets.UTF_8;
        }
        Matcher found = DECLARED.matcher(begin);
        if (!found.lookingAt()) {
            return StandardCharsets.UTF_8;
        }
        String named = found.group("one") == null ? found.group("other") : found.group("one");
        try {
            return named == null ? StandardCharsets.UTF_8 : Charset.forName(named);
        } catch (IllegalCharsetNameException | UnsupportedCharsetException unknown) {
            throw new Refused("INVALID_XML", "the value names an encoding that Java does not know");
        }
    }

    private static boolean begins(byte[] value, int first, int second) {
        return value.length > 1 && value[0] == (byte) first && value[1] == (byte) second;
    }
}
