package rivermouth.avro;

import java.io.IOException;
import java.io.Serializable;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.avro.Schema;

/**
 * A schema registry that speaks as Confluent's does. What it said of an id stays in the process, for an id never gets
 * another schema; that it has none is believed for a while only.
 */
public final class Registry implements Serializable {
    private static final long serialVersionUID = 1;

    private static final ObjectMapper JSON = new ObjectMapper();
    static final int DEEPEST_REFERENCE = 16;
    private static final int NOT_FOUND = 404;
    private static final int NEWEST = -1;
    private static final Map<Registry, Answers<Schema>> AVRO = new ConcurrentHashMap<>();
    private static final Map<Registry, Answers<byte[]>> PROTOBUF = new ConcurrentHashMap<>();

    private final String url;
    private final String authorization;
    private final String authorities;
    private final long timeoutMs;
    private final int maxBytes;

    /**
     * Reaches nothing yet.
     *
     * @param url where it is, without a login
     * @param username who logs in; empty for nobody
     * @param authorities certificates that it is trusted by, as PEM; empty for those of Java
     * @param timeoutMs bound on one question, repetitions included
     * @param maxBytes bound on one answer
     * @throws RegistryFailure the address is none
     */
    public Registry(
            String url, String username, String password, String authorities, long timeoutMs, int maxBytes) {
        this.url = url.replaceAll("/+$", "");
        byte[] login = (username + ":" + password).getBytes(StandardCharsets.UTF_8);
        this.authorization = username.isEmpty() ? "" : "Basic " + Base64.getEncoder().encodeToString(login);
        this.authorities = authorities;
        this.timeoutMs = timeoutMs;
        this.maxBytes = maxBytes;
        address("/");
    }

    /**
     * The schema of one version of a subject, with all that it refers to written out.
     *
     * @param version its number; -1 for the newest
     * @throws RegistryFailure there is none, or the registry does not give it
     */
    public String version(String subject, int version) {
        String what = name(subject, version);
        JsonNode found = ask(path(subject, version), what);
        Schema schema;
        try {
            schema = found == null ? null : schema(found, what, 0, new Schema.Parser());
        } catch (Unusable unusable) {
            throw new RegistryFailure(unusable.getMessage());
        }
        if (schema == null) {
            throw new RegistryFailure("it has no Avro schema as " + what);
        }
        return schema.toString();
    }

    /**
     * What it says of one version of a subject, as JSON; null if it has none.
     *
     * @param version its number; -1 for the newest
     * @param format how the schema shall be written in it: a registry's word
     * @throws RegistryFailure the registry does not say
     */
    public String said(String subject, int version, String format) {
        String what = name(subject, version);
        JsonNode found = ask(path(subject, version) + "?format=" + format, what);
        return found == null ? null : found.toString();
    }

    /**
     * The text of the Avro schema that has an id.
     *
     * @throws RegistryFailure the registry has none that can be used, or does not say
     */
    public String withId(int id) {
        try {
            return schema(SchemaId.of(id)).toString();
        } catch (Refused refused) {
            throw new RegistryFailure(refused.getMessage());
        }
    }

    /**
     * The Avro schema that has an id.
     *
     * @throws Refused the registry has none, or none that can be used
     * @throws RegistryFailure the registry does not say
     */
    Schema schema(SchemaId id) {
        return answers(AVRO).schema(id, this::asked);
    }

    /**
     * The Protobuf schema that has an id, with all that it refers to: a {@code FileDescriptorSet}.
     *
     * @throws Refused the registry has none, or none that can be used
     * @throws RegistryFailure the registry does not say
     */
    byte[] descriptors(SchemaId id) {
        return answers(PROTOBUF).schema(id, this::askedForDescriptors);
    }

    /** Asks again for what it did not have, in this process. */
    void lookAgain() {
        answers(AVRO).forgetAbsent();
        answers(PROTOBUF).forgetAbsent();
    }

    private <S> Answers<S> answers(Map<Registry, Answers<S>> all) {
        return all.computeIfAbsent(this, each -> new Answers<>());
    }

    private Answers.Answer<byte[]> askedForDescriptors(SchemaId id) {
        String none = "the schema registry has no Protobuf schema with " + id;
        String what = id.schema();
        try {
            JsonNode found = ask(id, "?format=serialized");
            return new Answers.Answer<>(found == null ? null : new Descriptors(this).of(found, what), none);
        } catch (Unusable unusable) {
            return new Answers.Answer<>(null, none + " that can be used: " + unusable.getMessage());
        }
    }

    private Answers.Answer<Schema> asked(SchemaId id) {
        String none = "the schema registry has no Avro schema with " + id;
        String what = id.schema();
        try {
            JsonNode found = ask(id, "");
            // A writer's defaults are used by nobody, and older registries took any.
            Schema.Parser parser = new Schema.Parser().setValidateDefaults(false);
            return new Answers.Answer<>(found == null ? null : schema(found, what, 0, parser), none);
        } catch (Unusable unusable) {
            return new Answers.Answer<>(null, none + " that can be used: " + unusable.getMessage());
        }
    }

    private Schema schema(JsonNode answer, String what, int depth, Schema.Parser parser) {
        if (!answer.path("schemaType").asText("AVRO").equals("AVRO")) {
            return null;
        }
        if (depth > DEEPEST_REFERENCE) {
            throw new Unusable(what + " refers to others more than " + DEEPEST_REFERENCE + " deep");
        }
        for (JsonNode reference : answer.path("references")) {
            String subject = reference.path("subject").asText();
            int version = reference.path("version").asInt();
            // Two may refer to the same.
            if (!parser.getTypes().containsKey(reference.path("name").asText())) {
                String other = name(subject, version);
                JsonNode found = ask(path(subject, version), other);
                if (found == null || schema(found, other, depth + 1, parser) == null) {
                    throw new Unusable(what + " refers to " + other + ", which is no Avro schema of it");
                }
            }
        }
        if (!answer.path("schema").isTextual()) {
            throw new RegistryFailure("its answer to " + what + " has no schema");
        }
        try {
            return parser.parse(answer.path("schema").asText());
        } catch (RuntimeException | StackOverflowError error) {
            throw new Unusable(what + " is no Avro schema");
        }
    }

    /** What it answers of an id; null if it has no such schema. */
    private JsonNode ask(SchemaId id, String query) {
        Http.Answer answer = answer(id.path() + query);
        if (id.isGuid() && answer.status == NOT_FOUND && !isNumbered(parsed(answer))) {
            // A registry that has no such path answers as any server does, and everybody who writes records may name
            // a GUID: the record is at fault, unless this is no registry at all.
            ask(SchemaId.of(Integer.MAX_VALUE).path(), id.schema());
            throw new Unusable("it knows no GUIDs");
        }
        return found(answer, id.schema());
    }

    /** What it answers; null if it says that there is no such thing. */
    JsonNode ask(String path, String what) {
        return found(answer(path), what);
    }

    private Http.Answer answer(String path) {
        try {
            return new Http(authorization, authorities, timeoutMs, maxBytes).get(address(path));
        } catch (RegistryFailure told) {
            throw told;
        } catch (RuntimeException error) {
            throw RegistryFailure.unasked(error);
        }
    }

    private static JsonNode found(Http.Answer answer, String what) {
        JsonNode found = parsed(answer);
        if (found == null) {
            throw new RegistryFailure("its answer to " + what + " is no JSON object");
        }
        if (answer.status == NOT_FOUND) {
            if (!isNumbered(found)) {
                throw new RegistryFailure("it answers 404 to " + what + ", and not as a schema registry");
            }
            return null;
        }
        return found;
    }

    /** The JSON object of an answer; null if it is none. */
    private static JsonNode parsed(Http.Answer answer) {
        try {
            JsonNode found = JSON.readTree(answer.body);
            return found != null && found.isObject() ? found : null;
        } catch (IOException | StackOverflowError error) {
            return null;
        }
    }

    /**
     * Whether a registry says that it does not have something. Another server that answers with 404, for example a
     * proxy, does not number its errors so.
     */
    private static boolean isNumbered(JsonNode error) {
        return error != null && error.path("error_code").asInt() / 100 == NOT_FOUND;
    }

    private URI address(String path) {
        try {
            return URI.create(url + path);
        } catch (IllegalArgumentException error) {
            throw new RegistryFailure("schema_registry.url is no address");
        }
    }

    static String path(String subject, int version) {
        String name = URLEncoder.encode(subject, StandardCharsets.UTF_8).replace("+", "%20");
        return "/subjects/" + name + "/versions/" + (version == NEWEST ? "latest" : version);
    }

    static String name(String subject, int version) {
        return (version == NEWEST ? "the newest version" : "version " + version) + " of subject " + subject;
    }

    private List<Object> key() {
        return List.of(url, authorization, authorities, timeoutMs, maxBytes);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Registry && key().equals(((Registry) other).key());
    }

    @Override
    public int hashCode() {
        return key().hashCode();
    }

    /** Nothing of the login. */
    @Override
    public String toString() {
        return "schema registry";
    }

    /** What it has, and nobody can read. */
    static final class Unusable extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unusable(String message) {
            super(message);
        }
    }
}
