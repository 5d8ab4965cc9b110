"""The session of a pipeline takes the arguments that Spark's own takes, by position and by name."""

import inspect

import pytest

from rivermouth.pipelines.session import flow_settings, pipeline_session

CLASSES = {
    each.__name__: each
    for each in (
        pipeline_session.PipelineSession,
        flow_settings.Settings,
        pipeline_session._Catalog,
        pipeline_session._BatchReader,
        pipeline_session._StreamReader,
    )
}
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@pytest.mark.parametrize("name", CLASSES)
def test_it_takes_what_sparks_own_takes(name):
    kind = CLASSES[name]
    methods = [
        (each, getattr(base, each))
        for each in vars(kind)
        for base in kind.__mro__[1:2]
        if not each.startswith("_") and inspect.isfunction(getattr(base, each, None))
    ]
    assert methods
    for each, method in methods:
        parameters = list(inspect.signature(method).parameters.values())
        mine = inspect.signature(getattr(kind, each))
        mine.bind(*(0 for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD))
        mine.bind(0, **{one.name: 0 for one in parameters[1:] if one.kind in NAMED})


def test_a_reader_has_no_way_to_files_that_the_pipeline_does_not_hear_of():
    for name in ("_BatchReader", "_StreamReader"):
        kind = getattr(pipeline_session, name)
        ways = {"json", "csv", "parquet", "text", "orc", "xml", "load", "table"}
        assert ways - set(vars(kind)) == set()
