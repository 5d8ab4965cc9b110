"""Under which names the tables of a project are found in its catalog, and where these names are kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rivermouth.errors import PlaceInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.spec import Catalog

_IMPLEMENTATION: Final = "spark.sql.catalogImplementation"
_WAREHOUSE: Final = "spark.sql.warehouse.dir"

METASTORE_URIS: Final = "spark.hadoop.hive.metastore.uris"

OF_THE_METASTORE: Final = (_IMPLEMENTATION, _WAREHOUSE, METASTORE_URIS)
"""Options of the metastore that a session has for good."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def registered_name(catalog: Catalog, schema: str, table: str) -> str:
    """``catalog.schema.table``, as Spark takes it without quotes.

    Raises:
        PlaceInvalid: The template of the schema's name has another placeholder than ``{schema}``.
    """
    for name in _BRACES.findall(catalog.naming):
        if name != "schema":
            fix = 'catalog: {schema: "lake_{schema}"}'
            raise PlaceInvalid(setting="catalog.schema", detail=f"unknown placeholder {{{name}}}", fix=fix)
    named = catalog.naming.replace("{schema}", schema)
    return ".".join((catalog.name, *(_NOT_IN_NAMES.sub("_", part) for part in (named, table))))


def metastore_conf(catalog: Catalog | None, state: str) -> Mapping[str, str]:
    """Spark's options for the metastore of ``spark_catalog``; none where others say what it is.

    An embedded one is a database of Derby in the folder ``state``, which one process at a time can open. It is opened
    by the first look-up of a name, not by the start of Spark.
    """
    if catalog is None or not (catalog.is_embedded or catalog.metastore_uri):
        return {}
    if catalog.metastore_uri:
        return {_IMPLEMENTATION: "hive", METASTORE_URIS: catalog.metastore_uri}
    return {
        _IMPLEMENTATION: "hive",
        # As Spark itself writes it.
        _WAREHOUSE: f"file:{state}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={state}/metastore;create=true",
    }
