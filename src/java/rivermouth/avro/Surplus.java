package rivermouth.avro;

import java.util.LinkedHashSet;
import java.util.Set;

import org.apache.avro.Schema;

/** The fields of a writer's records that a table's schema lacks, by their paths. */
final class Surplus {
    private final Set<String> found = new LinkedHashSet<>();

    private Surplus() {}

    /** Of a writer's schema with the table's names: {@code note}, {@code a.note}, {@code items[].note}. */
    static Set<String> of(Schema writer, Schema declared) {
        Surplus surplus = new Surplus();
        surplus.in(writer, declared, "");
        return surplus.found;
    }

    static String below(String path, String name) {
        return path.isEmpty() ? name : path + "." + name;
    }

    /** Ends where the table's schema does, which does not hold itself. */
    private void in(Schema writer, Schema declared, String path) {
        if (writer.getType() == Schema.Type.UNION) {
            writer.getTypes().forEach(each -> in(each, declared, path));
        } else if (declared.getType() == Schema.Type.UNION) {
            int branch = NamedTypes.branch(writer, declared);
            if (branch >= 0) {
                in(writer, declared.getTypes().get(branch), path);
            }
        } else if (writer.getType() == declared.getType()) {
            parts(writer, declared, path);
        }
    }

    private void parts(Schema writer, Schema declared, String path) {
        switch (writer.getType()) {
            case RECORD:
                for (Schema.Field field : writer.getFields()) {
                    Schema.Field mine = declared.getField(field.name());
                    String below = below(path, field.name());
                    if (mine == null) {
                        found.add(below);
                    } else {
                        in(field.schema(), mine.schema(), below);
                    }
                }
                break;
            case ARRAY:
                in(writer.getElementType(), declared.getElementType(), path + "[]");
                break;
            case MAP:
                in(writer.getValueType(), declared.getValueType(), path + "[]");
                break;
            default:
        }
    }
}
