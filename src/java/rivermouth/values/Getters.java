package rivermouth.values;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.util.HashMap;
import java.util.Map;

/** What objects of a class tell of themselves: components of records, getters, public fields. */
final class Getters {
    private static final int NAME_LENGTH = 100;
    private static final int GET = 3;
    private static final int IS = 2;
    // Of these, getters say nothing of a record.
    private static final String[] LIBRARIES = {"java.", "javax.", "jdk.", "sun.", "scala.", "kotlin."};
    private static final ClassValue<Map<String, Getter>> OF_CLASS = new ClassValue<>() {
        @Override
        protected Map<String, Getter> computeValue(Class<?> kind) {
            return found(kind);
        }
    };

    private Getters() {}

    /** The fields of an object; null if its class has none. */
    static View.Fields fields(Object row) {
        Map<String, Getter> getters = OF_CLASS.get(row.getClass());
        if (getters.isEmpty()) {
            return null;
        }
        return new View.Fields() {
            @Override
            public boolean has(String name) {
                return getters.containsKey(name);
            }

            @Override
            public Object get(String name) {
                Getter getter = getters.get(name);
                if (getter == null) {
                    throw lacking(row.getClass(), name);
                }
                return called(getter, row);
            }
        };
    }

    /** Unlike a map, an object of that class never has it: a misspelt column would be null for ever. */
    private static Refused lacking(Class<?> kind, String name) {
        String said = kind.getName();
        said = said.substring(0, Math.min(said.length(), NAME_LENGTH));
        return new Refused("FIELD_MISSING", "objects of " + said + " have no getter for field " + name);
    }

    private static Object called(Getter getter, Object row) {
        try {
            return getter.of(row);
        } catch (InvocationTargetException thrown) {
            throw new Unreadable(thrown.getCause());
        } catch (ReflectiveOperationException error) {
            throw new Unreadable(error);
        }
    }

    private static Map<String, Getter> found(Class<?> kind) {
        Map<String, Getter> getters = new HashMap<>();
        boolean closed = kind.isEnum() || kind.isArray();
        for (String library : LIBRARIES) {
            closed |= kind.getName().startsWith(library);
        }
        if (closed) {
            return getters;
        }
        for (Field field : kind.getFields()) {
            if (!Modifier.isStatic(field.getModifiers()) && reach(field, field.trySetAccessible())) {
                getters.put(field.getName(), field::get);
            }
        }
        for (Method method : kind.getMethods()) {
            String name = property(method);
            if (name != null && reach(method, method.trySetAccessible())) {
                getters.put(name, method::invoke);
            }
        }
        for (RecordComponent part : kind.isRecord() ? kind.getRecordComponents() : new RecordComponent[0]) {
            Method accessor = part.getAccessor();
            if (reach(accessor, accessor.trySetAccessible())) {
                getters.put(part.getName(), accessor::invoke);
            }
        }
        return getters;
    }

    /** Classes need not be public, as their methods are. */
    private static boolean reach(Member member, boolean made) {
        return made && Modifier.isPublic(member.getModifiers());
    }

    /** The name of what a method gets; null if it is no getter. */
    private static String property(Method method) {
        Class<?> type = method.getReturnType();
        boolean plain = method.getParameterCount() == 0
                && !Modifier.isStatic(method.getModifiers())
                && method.getDeclaringClass() != Object.class
                && type != void.class;
        String name = method.getName();
        boolean gets = plain && name.startsWith("get") && name.length() > GET;
        boolean says = plain && name.startsWith("is") && name.length() > IS && type == boolean.class;
        if (!gets && !says) {
            return null;
        }
        String rest = name.substring(gets ? GET : IS);
        // As the JavaBeans have it: getURL is of URL.
        boolean capitals = rest.length() > 1 && Character.isUpperCase(rest.charAt(0)) && Character.isUpperCase(rest.charAt(1));
        return capitals ? rest : Character.toLowerCase(rest.charAt(0)) + rest.substring(1);
    }

    /** Gets one thing of an object. */
    @FunctionalInterface
    private interface Getter {
        Object of(Object row) throws ReflectiveOperationException;
    }

    /** A getter has thrown. */
    static final class Unreadable extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unreadable(Throwable cause) {
            super(cause);
        }
    }
}
