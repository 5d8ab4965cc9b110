package rivermouth.avro;

import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;

import org.apache.avro.Schema;

/**
 * Which type of a writer is which type of the table. Records, enums and fixed go by their names, as Avro's specification
 * has it: the names without their namespaces. Aliases have been applied to the writer's names before.
 */
final class NamedTypes {
    private static final Set<Schema.Type> NAMED = EnumSet.of(Schema.Type.RECORD, Schema.Type.ENUM, Schema.Type.FIXED);

    private NamedTypes() {}

    /** Whether two types of one kind have one name; types that have no names do. */
    static boolean agree(Schema writer, Schema reader) {
        return !NAMED.contains(writer.getType())
                || !NAMED.contains(reader.getType())
                || writer.getName().equals(reader.getName());
    }

    /**
     * The place of the branch of the table's union that a writer's type is read as, below 0 if none is: the one of its
     * full name; else the only one of its name without the namespace; of types without names the one of the same type,
     * or the first that it may be promoted to.
     */
    static int branch(Schema writer, Schema union) {
        List<Schema> branches = union.getTypes();
        Schema.Type type = writer.getType();
        int[] alike = IntStream.range(0, branches.size())
                .filter(place -> branches.get(place).getType() == type)
                .toArray();
        if (NAMED.contains(type)) {
            String name = writer.getFullName();
            int same = first(alike, place -> branches.get(place).getFullName().equals(name));
            int[] agreeing = IntStream.of(alike)
                    .filter(place -> agree(writer, branches.get(place)))
                    .toArray();
            return same >= 0 ? same : agreeing.length == 1 ? agreeing[0] : -1;
        }
        int[] all = IntStream.range(0, branches.size()).toArray();
        return alike.length > 0 ? alike[0] : first(all, place -> isPromoted(writer, branches.get(place)));
    }

    private static int first(int[] places, IntPredicate isMeant) {
        return IntStream.of(places).filter(isMeant).findFirst().orElse(-1);
    }

    /** Whether a value of one type is read as another one, by Avro's rules. */
    static boolean isPromoted(Schema writer, Schema reader) {
        Schema.Type type = writer.getType();
        switch (reader.getType()) {
            case LONG:
                return type == Schema.Type.INT;
            case FLOAT:
                return type == Schema.Type.INT || type == Schema.Type.LONG;
            case DOUBLE:
                return type == Schema.Type.INT || type == Schema.Type.LONG || type == Schema.Type.FLOAT;
            case STRING:
                return type == Schema.Type.BYTES;
            case BYTES:
                return type == Schema.Type.STRING;
            default:
                return false;
        }
    }
}
