package rivermouth.json;

import java.util.Arrays;

/** The places of names, found by their bytes where they stand. */
final class Names {
    private static final int PRIME = 31;
    /** The table has this many entries a name, at least. */
    private static final int ROOM = 4;

    private final byte[][] names;
    /** By the hash of a name, or the next free entry behind it: its place and one; 0 where there is none. */
    private final int[] table;

    Names(byte[][] names) {
        this.names = names;
        table = new int[Integer.highestOneBit(ROOM * (names.length + 1))];
        for (int place = 0; place < names.length; place++) {
            int entry = entry(names[place], 0, names[place].length);
            while (table[entry] != 0) {
                entry = after(entry);
            }
            table[entry] = place + 1;
        }
    }

    /** The place of the name that these bytes are, or a negative number if it is none of them. */
    int place(byte[] bytes, int begin, int end) {
        int entry = entry(bytes, begin, end);
        while (table[entry] != 0) {
            byte[] name = names[table[entry] - 1];
            if (Arrays.equals(bytes, begin, end, name, 0, name.length)) {
                return table[entry] - 1;
            }
            entry = after(entry);
        }
        return -1;
    }

    private int entry(byte[] bytes, int begin, int end) {
        int hash = 0;
        for (int at = begin; at < end; at++) {
            hash = hash * PRIME + bytes[at];
        }
        return (hash ^ hash >>> Short.SIZE) & table.length - 1;
    }

    private int after(int entry) {
        return entry + 1 & table.length - 1;
    }
}
