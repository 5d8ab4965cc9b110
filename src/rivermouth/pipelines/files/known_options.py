"""The options that readers of files have: those of Auto Loader, and those of each format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PREFIX: Final = "cloudfiles."

FORMATS: Final = ("avro", "binaryFile", "csv", "json", "orc", "parquet", "text", "xml")
TYPED: Final = ("avro", "orc", "parquet")
"""Formats whose files say the types of their columns."""
FIXED: Final = ("binaryFile", "text")
"""Formats that have the same columns always."""

OURS: Final = (
    "allowOverwrites",
    "badRecordsPath",
    "cleanSource",
    "cleanSource.moveDestination",
    "cleanSource.retentionDuration",
    "columnNameOfCorruptRecord",
    "fileNamePattern",
    "format",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "includeExistingFiles",
    "inferColumnTypes",
    "inferSchema",
    "maxBytesPerTrigger",
    "maxFilesPerTrigger",
    "mode",
    "modifiedAfter",
    "modifiedBefore",
    "partitionColumns",
    "pathGlobFilter",
    "readerCaseSensitive",
    "recursiveFileLookup",
    "rescuedDataColumn",
    "schema",
    "schemaEvolutionMode",
    "schemaHints",
    "schemaLocation",
)
"""Options that we read, of all formats."""

PASSED_BY: Final = (
    "awsAccessKey",
    "awsSecretKey",
    "backfillInterval",
    "cleanSource.waitForCompletion",
    "client",
    "clientEmail",
    "clientId",
    "clientSecret",
    "connectionString",
    "databricks.serviceCredential",
    "fetchParallelism",
    "listOnStart",
    "maxFileAge",
    "pathRewrites",
    "privateKey",
    "privateKeyId",
    "projectId",
    "queueName",
    "queueUrl",
    "region",
    "resourceGroup",
    "resourceTag",
    "restrictNotificationSetupToSameAWSAccountId",
    "roleArn",
    "roleExternalId",
    "roleSessionName",
    "stsEndpoint",
    "subscription",
    "subscriptionId",
    "tenantId",
    "useIncrementalListing",
    "useManagedFileEvents",
    "useNotifications",
    "useStrictGlobber",
    "validateOptions",
)
"""Options about how Databricks learns of files: here folders are always listed, so that they change nothing."""

TAGS: Final = "resourcetag."
"""The start of further such options, in lower case; a name that the user chooses follows."""

OF_TABLES: Final = ("ignoreChanges", "ignoreDeletes", "readChangeData", "readChangeFeed", "skipChangeCommits")
"""Options of readers of Delta tables. Generated code sets them for all of its sources."""

_TIMES: Final = ("dateFormat", "timestampFormat")

OF_FORMAT: Final[Mapping[str, tuple[str, ...]]] = {
    "avro": ("datetimeRebaseMode", "ignoreExtension", "mergeSchema", "recursiveFieldMaxDepth"),
    "binaryFile": (),
    "csv": (
        *_TIMES,
        "charToEscapeQuoteEscaping",
        "charset",
        "comment",
        "delimiter",
        "emptyValue",
        "encoding",
        "enforceSchema",
        "escape",
        "header",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "lineSep",
        "maxCharsPerColumn",
        "maxColumns",
        "mergeSchema",
        "multiLine",
        "nullValue",
        "parserCaseSensitive",
        "quote",
        "sep",
        "unescapedQuoteHandling",
    ),
    "json": (
        *_TIMES,
        "dropFieldIfAllNull",
        "lineSep",
        "mergeSchema",
        "multiLine",
        "prefersDecimal",
        "primitivesAsString",
        "samplingRatio",
    ),
    "orc": ("mergeSchema",),
    "parquet": ("datetimeRebaseMode", "int96RebaseMode", "mergeSchema"),
    "text": ("lineSep", "wholeText"),
    "xml": (
        *_TIMES,
        "arrayElementName",
        "attributePrefix",
        "charset",
        "encoding",
        "excludeAttribute",
        "ignoreNamespace",
        "ignoreSurroundingSpaces",
        "locale",
        "nullValue",
        "rowTag",
        "rowValidationXSDPath",
        "samplingRatio",
        "timeZone",
        "valueTag",
    ),
}
"""Options of the formats' own readers that are honoured."""

REFUSED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "json": (
        (
            "allowBackslashEscapingAnyCharacter",
            "allowComments",
            "allowNonNumericNumbers",
            "allowNumericLeadingZeros",
            "allowSingleQuotes",
            "allowUnquotedControlChars",
            "allowUnquotedFieldNames",
            "charset",
            "encoding",
            "inferTimestamp",
            "locale",
            "singleVariantColumn",
            "timeZone",
            "timestampNTZFormat",
        ),
        "JSON is read strictly, in UTF-8",
    ),
    "csv": (
        (
            "escapeQuotes",
            "locale",
            "nanValue",
            "negativeInf",
            "positiveInf",
            "preferDate",
            "singleVariantColumn",
            "skipRows",
            "timeZone",
            "timestampNTZFormat",
        ),
        "fields of CSV are read without it",
    ),
    "avro": (
        ("avroSchema", "avroSchemaEvolutionMode", "enableStableIdentifiersForUnionType", "positionalFieldMatching"),
        "columns are found by their names in each file",
    ),
    "text": (("encoding",), "text is read in UTF-8"),
    "xml": (("singleVariantColumn", "wildcardColName"), "columns are found by the names of elements"),
}
"""By format: options of its own that are not honoured, and why."""

AS_READ: Final[Mapping[str, str]] = {
    **{name.lower(): "false" for name in REFUSED["json"][0] if name.startswith("allow")},
    "avroschemaevolutionmode": "none",
    "enablestableidentifiersforuniontype": "false",
    "infertimestamp": "false",
    "locale": "en-us",
    "nanvalue": "nan",
    "negativeinf": "-inf",
    "positionalfieldmatching": "false",
    "positiveinf": "inf",
    "preferdate": "true",
    "skiprows": "0",
}
"""Options that are not honoured, in lower case, with the value that asks for what is done anyway."""
