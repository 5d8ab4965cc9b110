package rivermouth.values;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An element of an XML document: what it contains, by name. */
final class Element implements View.Fields, View.Said {
    /** Before an attribute's name, as Spark's own reader of XML has it. */
    static final String ATTRIBUTE = "_";
    /** The element's own text. */
    static final String TEXT = "_VALUE";

    private final Map<String, List<Element>> elements = new LinkedHashMap<>();
    private final Map<String, String> attributes = new LinkedHashMap<>();
    private final StringBuilder text = new StringBuilder();
    /** Whether it says of itself that it is null. */
    boolean nil;

    void add(String name, Element child) {
        elements.computeIfAbsent(name, each -> new ArrayList<>()).add(child);
    }

    /** Whether no attribute of that name was there before. */
    boolean attribute(String name, String value) {
        return attributes.put(ATTRIBUTE + name, value) == null;
    }

    void text(String more) {
        text.append(more);
    }

    String text() {
        return text.toString();
    }

    /** The elements in it, by name. */
    Map<String, List<Element>> elements() {
        return elements;
    }

    @Override
    public boolean has(String name) {
        return elements.containsKey(name) || attributes.containsKey(name) || name.equals(TEXT);
    }

    @Override
    public Iterable<String> names() {
        List<String> found = new ArrayList<>(elements.keySet());
        found.addAll(attributes.keySet());
        return found;
    }

    @Override
    public Object get(String name) {
        List<Element> found = elements.get(name);
        if (found != null) {
            return found;
        }
        String attribute = attributes.get(name);
        return attribute == null && name.equals(TEXT) ? ownText() : attribute;
    }

    /** The text between the elements, where that is more than blanks. */
    private String ownText() {
        String own = text();
        return elements.isEmpty() || !own.isBlank() ? own : null;
    }

    @Override
    public String words() {
        return elements.isEmpty() ? "a text that does not fit" : "an element with elements in it";
    }
}
