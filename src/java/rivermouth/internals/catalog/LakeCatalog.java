package rivermouth.internals.catalog;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.delta.catalog.DeltaCatalog;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import scala.jdk.javaapi.CollectionConverters;

/**
 * The tables of a lake by their names: {@code schema.table} is the Delta table in the folder of that name.
 *
 * <p>Nothing is registered. A name becomes the path of its folder, and Delta reads and makes tables by their paths. Names
 * that the lake does not have are those of the session's own catalog.
 */
public final class LakeCatalog extends DeltaCatalog {
    /** Setting: the folder of the lake. */
    public static final String LAKE = "spark.rivermouth.lake";

    /** Setting: the schema of names without one, to which Spark gives its own default. */
    public static final String SCHEMA = "spark.rivermouth.schema";

    /** Start of settings, with {@code schema.table} after it: the folder of a table that is elsewhere. */
    public static final String PATH = "spark.rivermouth.path";

    private static final String SESSION_CATALOG = "spark_catalog";
    private static final String SPARKS_DEFAULT = "default";
    private static final String BY_PATH = "delta";
    /** End of the names of tables with dead letters, which no pipeline reads by listing its tables. */
    private static final String DEAD_LETTERS = "__dead_letters";

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        super.initialize(name, options);
        TablesWithoutPlace.refuse(session());
        if (!SESSION_CATALOG.equals(name)) {
            setDelegateCatalog(session().sessionState().catalogManager().catalog(SESSION_CATALOG));
        }
    }

    @Override
    public Table loadTable(Identifier name) {
        return super.loadTable(found(name));
    }

    @Override
    public Table loadTable(Identifier name, long timestamp) {
        return super.loadTable(found(name), timestamp);
    }

    @Override
    public Table loadTable(Identifier name, String version) {
        return super.loadTable(found(name), version);
    }

    @Override
    public boolean tableExists(Identifier name) {
        return super.tableExists(found(name));
    }

    @Override
    public Identifier[] listTables(String[] schema) throws NoSuchNamespaceException {
        Set<Identifier> found = new LinkedHashSet<>();
        boolean isOurs = isOfLake(schema);
        if (isOurs) {
            Path folder = folderOf(schema);
            Stream.concat(folders(folder), tablesElsewhere(folder.getName()))
                    .filter(each -> !each.endsWith(DEAD_LETTERS))
                    .map(each -> Identifier.of(schema, each))
                    .filter(each -> found(each) != each)
                    .forEach(found::add);
        }
        if (!isOurs || super.namespaceExists(schema)) {
            Collections.addAll(found, super.listTables(schema));
        }
        return found.toArray(Identifier[]::new);
    }

    @Override
    public String[][] listNamespaces() throws NoSuchNamespaceException {
        String[][] theirs = super.listNamespaces();
        if (setting(LAKE) == null) {
            return theirs;
        }
        Set<String> names = new LinkedHashSet<>();
        Stream.of(theirs).map(each -> each[0]).forEach(names::add);
        Stream<String> elsewhere = elsewhere("").map(each -> each.substring(0, each.indexOf('.')));
        Stream<String> ours = Stream.concat(Stream.of(schemaOf(SPARKS_DEFAULT)), elsewhere);
        Stream.concat(folders(new Path(setting(LAKE))), ours).sorted().forEach(names::add);
        return names.stream().map(each -> new String[] {each}).toArray(String[][]::new);
    }

    @Override
    public boolean namespaceExists(String[] schema) {
        return super.namespaceExists(schema) || isOfLake(schema);
    }

    @Override
    public Map<String, String> loadNamespaceMetadata(String[] schema) throws NoSuchNamespaceException {
        if (!super.namespaceExists(schema) && isOfLake(schema)) {
            return Map.of(SupportsNamespaces.PROP_LOCATION, folderOf(schema).toString());
        }
        return super.loadNamespaceMetadata(schema);
    }

    @Override
    public boolean dropNamespace(String[] schema, boolean cascade)
            throws NoSuchNamespaceException, NonEmptyNamespaceException {
        if (!super.namespaceExists(schema) && isOfLake(schema)) {
            throw new UnsupportedOperationException(
                    String.format("the schema in %s is not dropped: it is one of the lake", folderOf(schema)));
        }
        return super.dropNamespace(schema, cascade);
    }

    // Delta's other methods that make tables come to these.

    @Override
    public Table createTable(Identifier name, StructType columns, Transform[] parts, Map<String, String> properties) {
        return super.createTable(placed(name, properties), columns, parts, properties);
    }

    @Override
    public StagedTable stageCreate(
            Identifier name, StructType columns, Transform[] parts, Map<String, String> properties) {
        return super.stageCreate(placed(name, properties), columns, parts, properties);
    }

    @Override
    public StagedTable stageReplace(
            Identifier name, StructType columns, Transform[] parts, Map<String, String> properties) {
        return super.stageReplace(placed(name, properties), columns, parts, properties);
    }

    @Override
    public StagedTable stageCreateOrReplace(
            Identifier name, StructType columns, Transform[] parts, Map<String, String> properties) {
        return super.stageCreateOrReplace(placed(name, properties), columns, parts, properties);
    }

    // Files and ledger of a table are rivermouth's, and Kafka may not have its records any more.

    @Override
    public boolean dropTable(Identifier name) {
        refuse(name, "dropped");
        return super.dropTable(name);
    }

    @Override
    public boolean purgeTable(Identifier name) {
        refuse(name, "dropped");
        return super.purgeTable(name);
    }

    @Override
    public void renameTable(Identifier name, Identifier other) throws NoSuchTableException, TableAlreadyExistsException {
        refuse(name, "renamed");
        super.renameTable(name, other);
    }

    private void refuse(Identifier name, String done) {
        Identifier place = found(name);
        if (place != name) {
            throw new UnsupportedOperationException(
                    String.format("the table in %s is not %s: it is a table of the lake", place.name(), done));
        }
    }

    /** The table of the lake that a name means, by its path; the name itself where the lake has none. */
    private Identifier found(Identifier name) {
        if (!mayBeOfLake(name)) {
            return name;
        }
        String schema = name.namespace()[0];
        Identifier first = inLake(schemaOf(schema), name);
        if (isTable(first)) {
            return first;
        }
        if (schemaOf(schema).equals(schema)) {
            return name;
        }
        Identifier second = inLake(schema, name);
        return isTable(second) ? second : name;
    }

    /** Where a table of this name is made: in the lake, unless it is of another format or it is said where. */
    private Identifier placed(Identifier name, Map<String, String> properties) {
        boolean delta = BY_PATH.equalsIgnoreCase(properties.getOrDefault(TableCatalog.PROP_PROVIDER, BY_PATH));
        boolean elsewhere = properties.containsKey(TableCatalog.PROP_LOCATION);
        return mayBeOfLake(name) && delta && !elsewhere ? inLake(schemaOf(name.namespace()[0]), name) : name;
    }

    private boolean mayBeOfLake(Identifier name) {
        return name.namespace().length == 1 && !isPathIdentifier(name) && setting(LAKE) != null;
    }

    private String schemaOf(String schema) {
        String ours = setting(SCHEMA);
        return ours != null && SPARKS_DEFAULT.equalsIgnoreCase(schema) ? ours : schema;
    }

    private Identifier inLake(String schema, Identifier name) {
        String folder = schema.toLowerCase(Locale.ROOT);
        String table = name.name().toLowerCase(Locale.ROOT);
        String elsewhere = setting(String.format("%s.%s.%s", PATH, folder, table));
        String path = elsewhere != null ? elsewhere : String.format("%s/%s/%s", setting(LAKE), folder, table);
        return Identifier.of(new String[] {BY_PATH}, path);
    }

    /** Whether a schema has a folder in the lake, or tables elsewhere, or is that of names without one. */
    private boolean isOfLake(String[] schema) {
        if (schema.length != 1 || setting(LAKE) == null) {
            return false;
        }
        Path folder = folderOf(schema);
        boolean isOwn = folder.getName().equalsIgnoreCase(setting(SCHEMA));
        return isOwn || tablesElsewhere(folder.getName()).findAny().isPresent() || exists(folder);
    }

    private Path folderOf(String[] schema) {
        return new Path(String.format("%s/%s", setting(LAKE), schemaOf(schema[0]).toLowerCase(Locale.ROOT)));
    }

    /** The names of the tables of a schema that are elsewhere. */
    private static Stream<String> tablesElsewhere(String schema) {
        return elsewhere(String.format("%s.", schema));
    }

    /** What follows this beginning in the names of the tables that are elsewhere. */
    private static Stream<String> elsewhere(String beginning) {
        String start = String.format("%s.%s", PATH, beginning);
        return CollectionConverters.asJava(session().conf().getAll()).keySet().stream()
                .filter(each -> each.startsWith(start))
                .map(each -> each.substring(start.length()));
    }

    /** The names of the folders in a folder, without those of rivermouth and Delta; none if it does not exist. */
    private static Stream<String> folders(Path place) {
        try {
            FileStatus[] all = place.getFileSystem(session().sessionState().newHadoopConf()).listStatus(place);
            return Stream.of(all)
                    .filter(FileStatus::isDirectory)
                    .map(each -> each.getPath().getName())
                    .filter(each -> !each.startsWith("_") && !each.startsWith("."));
        } catch (FileNotFoundException error) {
            return Stream.empty();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private boolean isTable(Identifier place) {
        return exists(new Path(place.name(), "_delta_log"));
    }

    private static boolean exists(Path place) {
        try {
            return place.getFileSystem(session().sessionState().newHadoopConf()).exists(place);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private String setting(String name) {
        return session().sessionState().conf().getConfString(name, null);
    }

    private static SparkSession session() {
        return SparkSession.active();
    }
}
