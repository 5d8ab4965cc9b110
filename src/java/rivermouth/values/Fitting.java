package rivermouth.values;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** What Java has of a field's value, in Spark's own form: it is of the declared type as it is, or is refused. */
abstract class Fitting {
    private static final String MISSING = "FIELD_MISSING";

    final String path;
    final View view;
    private final DataType declared;
    private final boolean required;

    private Fitting(DataType declared, String path, boolean required, View view) {
        this.declared = declared;
        this.path = path;
        this.required = required;
        this.view = view;
    }

    /** That of one field. */
    static Fitting of(DataType declared, String path, boolean required, View view) {
        if (declared instanceof StructType) {
            return new OfStruct((StructType) declared, path, required, view);
        }
        if (declared instanceof ArrayType) {
            return new OfArray((ArrayType) declared, path, required, view);
        }
        if (declared instanceof MapType) {
            return new OfMap((MapType) declared, path, required, view);
        }
        return new OfLeaf(declared, path, required, view);
    }

    /**
     * The value in Spark's own form; null for none.
     *
     * @throws Refused it is not of the declared type
     */
    final Object fit(Object value) {
        Object plain = value == null ? null : view.plain(value, declared);
        if (plain != null) {
            return fitted(plain);
        }
        if (required) {
            throw new Refused(MISSING, path, "field " + path + " is declared NOT NULL and is null");
        }
        return null;
    }

    /** The same of a plain value that is there. */
    abstract Object fitted(Object plain);

    final Refused wrong(String what) {
        String said = "field " + path + " is declared " + declared.simpleString() + " and holds " + what;
        return new Refused("FIELD_TYPE", path, said);
    }

    /** Columns of a row, in the order of their schema. */
    static final class Columns {
        private final String[] names;
        private final Fitting[] fittings;

        Columns(StructType schema, String path, View view) {
            StructField[] fields = schema.fields();
            names = schema.fieldNames();
            fittings = new Fitting[fields.length];
            for (int place = 0; place < fields.length; place++) {
                String name = path.isEmpty() ? names[place] : path + "." + names[place];
                fittings[place] = of(fields[place].dataType(), name, !fields[place].nullable(), view);
            }
        }

        boolean isAnyIn(View.Fields fields) {
            for (String name : names) {
                if (fields.has(name)) {
                    return true;
                }
            }
            return false;
        }

        /**
         * The row of these fields.
         *
         * @throws Refused none of them is declared, or one does not fit
         */
        GenericInternalRow namedRow(View.Fields fields) {
            GenericInternalRow row = row(fields);
            if (!isAnyIn(fields)) {
                throw Named.none(List.of(names), fields.names());
            }
            return row;
        }

        GenericInternalRow row(View.Fields fields) {
            Object[] values = new Object[names.length];
            for (int place = 0; place < values.length; place++) {
                values[place] = fitted(fittings[place], fields, names[place]);
            }
            return new GenericInternalRow(values);
        }

        private static Object fitted(Fitting fitting, View.Fields fields, String name) {
            try {
                return fitting.fit(fields.get(name));
            } catch (Refused refused) {
                String path = refused.field == null ? fitting.path : refused.field;
                boolean missing = refused.reason.equals(MISSING) && path.equals(fitting.path) && !fields.has(name);
                String told = missing ? Named.spelling(name, fields.names()) : null;
                throw new Refused(refused.reason, path, refused.getMessage() + (told == null ? "" : told));
            }
        }
    }

    private static final class OfStruct extends Fitting {
        private final Columns columns;

        OfStruct(StructType declared, String path, boolean required, View view) {
            super(declared, path, required, view);
            columns = new Columns(declared, path, view);
        }

        @Override
        Object fitted(Object plain) {
            View.Fields fields = view.fields(plain);
            if (fields == null) {
                throw wrong(Leaf.kind(plain));
            }
            return columns.row(fields);
        }
    }

    private static final class OfArray extends Fitting {
        private final Fitting item;

        OfArray(ArrayType declared, String path, boolean required, View view) {
            super(declared, path, required, view);
            item = of(declared.elementType(), path + "[]", !declared.containsNull(), view);
        }

        @Override
        Object fitted(Object plain) {
            if (!(plain instanceof List)) {
                throw wrong(Leaf.kind(plain));
            }
            return new GenericArrayData(((List<?>) plain).stream().map(item::fit).toArray());
        }
    }

    private static final class OfMap extends Fitting {
        private final Fitting key;
        private final Fitting item;

        OfMap(MapType declared, String path, boolean required, View view) {
            super(declared, path, required, view);
            key = of(declared.keyType(), path + "[]", true, view);
            item = of(declared.valueType(), path + "[]", !declared.valueContainsNull(), view);
        }

        @Override
        Object fitted(Object plain) {
            if (!(plain instanceof Map)) {
                throw wrong(Leaf.kind(plain));
            }
            Map<?, ?> entries = (Map<?, ?>) plain;
            Object[] keys = new Object[entries.size()];
            Object[] items = new Object[keys.length];
            Set<Object> seen = new HashSet<>();
            int place = 0;
            for (Map.Entry<?, ?> entry : entries.entrySet()) {
                keys[place] = key.fit(entry.getKey());
                // Two texts of Java may be one of Spark's.
                if (!seen.add(keys[place])) {
                    throw wrong("a key twice");
                }
                items[place++] = item.fit(entry.getValue());
            }
            return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(items));
        }
    }

    private static final class OfLeaf extends Fitting {
        private final Leaf leaf;

        OfLeaf(DataType declared, String path, boolean required, View view) {
            super(declared, path, required, view);
            leaf = Leaf.of(declared, view.truncatesTimes());
            if (leaf == null) {
                throw new IllegalArgumentException(
                        "column " + path + ": type " + declared.simpleString() + " is not known here");
            }
        }

        @Override
        Object fitted(Object plain) {
            try {
                return leaf.of(plain);
            } catch (Leaf.Unfit unfit) {
                throw wrong(unfit.getMessage());
            }
        }
    }
}
