package rivermouth.avro;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;

/** A Protobuf schema of a registry with all that it refers to, as a descriptor file holds it. */
final class Descriptors {
    // As decoding/registry/registry_references.py names what was asked for.
    private static final String ROOT = "the schema";
    // Of a FileDescriptorSet its files, and of each its name: fields of the number 1 with a length.
    private static final int FIRST_FIELD = 0x0a;
    private static final int BITS = 7;
    private static final int MORE = 0x80;

    private final Registry registry;
    private final Map<String, byte[]> files = new LinkedHashMap<>();

    Descriptors(Registry registry) {
        this.registry = registry;
    }

    /**
     * What a registry answered with {@code format=serialized} as a {@code FileDescriptorSet}, the schema itself first;
     * null if that is of another kind.
     *
     * @throws Registry.Unusable it is not whole
     * @throws RegistryFailure the registry does not say
     */
    byte[] of(JsonNode answer, String what) {
        if (!add(ROOT, answer, what, 0)) {
            return null;
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        files.forEach((name, file) -> {
            // The last of two names counts: others import it by this one, and its own may be another.
            ByteArrayOutputStream named = new ByteArrayOutputStream();
            named.writeBytes(file);
            field(named, name.getBytes(StandardCharsets.UTF_8));
            field(out, named.toByteArray());
        });
        return out.toByteArray();
    }

    private boolean add(String name, JsonNode answer, String what, int depth) {
        if (!answer.path("schemaType").asText().equalsIgnoreCase("protobuf")) {
            return false;
        }
        if (depth > Registry.DEEPEST_REFERENCE) {
            throw new Registry.Unusable(
                    what + " refers to others more than " + Registry.DEEPEST_REFERENCE + " deep");
        }
        try {
            files.put(name, Base64.getDecoder().decode(answer.path("schema").asText()));
        } catch (IllegalArgumentException error) {
            throw new Registry.Unusable(what + " is not given as a descriptor (format=serialized)");
        }
        for (JsonNode reference : answer.path("references")) {
            String called = reference.path("name").asText();
            if (files.containsKey(called)) {
                continue;
            }
            String subject = reference.path("subject").asText();
            int version = reference.path("version").asInt();
            String other = Registry.name(subject, version);
            JsonNode found = registry.ask(Registry.path(subject, version) + "?format=serialized", other);
            if (found == null || !add(called, found, other, depth + 1)) {
                throw new Registry.Unusable(what + " refers to " + other + ", which is no Protobuf schema of it");
            }
        }
        return true;
    }

    private static void field(ByteArrayOutputStream out, byte[] content) {
        out.write(FIRST_FIELD);
        int length = content.length;
        while (length >= MORE) {
            out.write(length & MORE - 1 | MORE);
            length >>>= BITS;
        }
        out.write(length);
        out.writeBytes(content);
    }
}
