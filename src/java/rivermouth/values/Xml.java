package rivermouth.values;

import java.io.StringReader;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;

import javax.xml.XMLConstants;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/**
 * A value is one XML document: a row of the declared columns, which are elements in its root, attributes of that, and its
 * text.
 *
 * <p>Names are those without their namespace. A document with a DTD is refused: it could name files, or grow without bound.
 */
public final class Xml extends Step {
    private static final long serialVersionUID = 1;
    private static final int MAX_DEPTH = 1000;
    private static final String INVALID = "INVALID_XML";

    private final String declared;
    private final String rowTag;
    private final String nullText;
    private final boolean anyFields;
    private final boolean truncatesTimes;
    private transient Fitting.Columns columns;
    private transient XMLInputFactory parsers;

    /**
     * Of one flow.
     *
     * @param declared the schema, as JSON
     * @param rowTag the name that the root must have; null if any will do
     * @param nullText what an element or attribute that is null has as its text; null if nothing is
     * @param anyFields whether a document may have none of the declared columns
     * @param truncatesTimes whether what is less than a microsecond is cut off of times
     * @throws IllegalArgumentException no value becomes one of its types
     */
    public Xml(String declared, String rowTag, String nullText, boolean anyFields, boolean truncatesTimes) {
        this.declared = declared;
        this.rowTag = rowTag;
        this.nullText = nullText;
        this.anyFields = anyFields;
        this.truncatesTimes = truncatesTimes;
        columns();
    }

    @Override
    Object of(byte[] value) {
        Element root = root(value);
        return anyFields ? columns().row(root) : columns().namedRow(root);
    }

    @Override
    DataType type() {
        return schema().asNullable();
    }

    @Override
    List<Object> key() {
        return Arrays.asList(declared, rowTag, nullText, anyFields, truncatesTimes);
    }

    private StructType schema() {
        return (StructType) DataType.fromJson(declared);
    }

    private Fitting.Columns columns() {
        if (columns == null) {
            columns = new Fitting.Columns(schema(), "", new Seen(nullText, truncatesTimes));
        }
        return columns;
    }

    private XMLInputFactory parsers() {
        if (parsers == null) {
            XMLInputFactory made = XMLInputFactory.newDefaultFactory();
            made.setProperty(XMLInputFactory.SUPPORT_DTD, false);
            made.setProperty(XMLInputFactory.IS_SUPPORTING_EXTERNAL_ENTITIES, false);
            made.setProperty(XMLConstants.ACCESS_EXTERNAL_DTD, "");
            parsers = made;
        }
        return parsers;
    }

    private Element root(byte[] value) {
        try {
            XMLStreamReader in = parsers().createXMLStreamReader(new StringReader(XmlEncoding.decoded(value)));
            try {
                return root(in);
            } finally {
                in.close();
            }
        } catch (XMLStreamException malformed) {
            throw new Refused(INVALID, "the value is no well-formed XML" + place(malformed));
        }
    }

    private static String place(XMLStreamException malformed) {
        return malformed.getLocation() == null
                ? ""
                : ": see line " + malformed.getLocation().getLineNumber() + ", column "
                        + malformed.getLocation().getColumnNumber();
    }

    private Element root(XMLStreamReader in) throws XMLStreamException {
        Deque<Element> open = new ArrayDeque<>();
        Element root = null;
        while (in.hasNext()) {
            switch (in.next()) {
                case XMLStreamConstants.START_ELEMENT:
                    Element found = element(in);
                    if (root == null) {
                        root = found;
                        checkName(in.getLocalName());
                    } else {
                        open.getFirst().add(in.getLocalName(), found);
                    }
                    open.addFirst(found);
                    checkDepth(open.size());
                    break;
                case XMLStreamConstants.END_ELEMENT:
                    open.removeFirst();
                    break;
                case XMLStreamConstants.CHARACTERS:
                case XMLStreamConstants.CDATA:
                case XMLStreamConstants.SPACE:
                    if (!open.isEmpty()) {
                        open.getFirst().text(in.getText());
                    }
                    break;
                case XMLStreamConstants.DTD:
                    throw new Refused(INVALID, "the value has a DTD, which is not read");
                case XMLStreamConstants.ENTITY_REFERENCE:
                    throw new Refused(INVALID, "the value has an entity that XML does not know");
                default:
            }
        }
        return root;
    }

    private void checkName(String name) {
        if (rowTag != null && !rowTag.equals(name)) {
            throw new Refused("NOT_AN_OBJECT", "the value's root is not the element " + rowTag);
        }
    }

    private static void checkDepth(int depth) {
        if (depth > MAX_DEPTH) {
            throw new Refused("TOO_DEEP", "elements are nested more than " + MAX_DEPTH + " deep");
        }
    }

    private static Element element(XMLStreamReader in) {
        Element found = new Element();
        for (int place = 0; place < in.getAttributeCount(); place++) {
            String name = in.getAttributeLocalName(place);
            String value = in.getAttributeValue(place);
            boolean ofInstance = XMLConstants.W3C_XML_SCHEMA_INSTANCE_NS_URI.equals(in.getAttributeNamespace(place));
            if (ofInstance && name.equals("nil")) {
                found.nil = value.strip().equals("true") || value.strip().equals("1");
            } else if (!ofInstance && !found.attribute(name, value)) {
                throw new Refused(INVALID, "an element has two attributes whose names differ in their namespace only");
            }
        }
        return found;
    }

    /** All that is sent is text: it is read as the declared type, blanks around it aside. */
    private static final class Seen implements View {
        private static final Said SEVERAL = () -> "several elements of that name";
        private static final Said UNFIT = () -> "a text that does not fit";

        private final String nullText;
        private final boolean truncatesTimes;

        Seen(String nullText, boolean truncatesTimes) {
            this.nullText = nullText;
            this.truncatesTimes = truncatesTimes;
        }

        @Override
        public boolean truncatesTimes() {
            return truncatesTimes;
        }

        @Override
        public Object plain(Object value, DataType declared) {
            if (value instanceof List) {
                List<?> found = (List<?>) value;
                if (declared instanceof ArrayType) {
                    return found;
                }
                return found.size() == 1 ? plain(found.get(0), declared) : SEVERAL;
            }
            return value instanceof Element ? ofElement((Element) value, declared) : ofText((String) value, declared);
        }

        private Object ofElement(Element value, DataType declared) {
            if (value.nil) {
                return null;
            }
            if (declared instanceof StructType) {
                return value;
            }
            Map<String, List<Element>> elements = value.elements();
            if (declared instanceof MapType) {
                return elements.isEmpty() && !value.text().isBlank() ? value : elements;
            }
            return elements.isEmpty() ? ofText(value.text(), declared) : value;
        }

        private Object ofText(String text, DataType declared) {
            if (text.equals(nullText)) {
                return null;
            }
            Object found = Texts.of(text, declared);
            return found == null ? UNFIT : found;
        }

        @Override
        public Fields fields(Object value) {
            return value instanceof Element ? (Element) value : null;
        }
    }
}
