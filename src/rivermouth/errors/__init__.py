"""Every error that rivermouth raises on purpose: one class per cause, its text as data.

A class holds a stable ``code``, the sentence ``what`` and one pasteable ``hint``, both with places
for facts. The facts are keyword arguments and become attributes. No text ever holds the contents of a
row, the value of an option or a secret: only names, coordinates and counts.

The classes stand in the file of the room that they belong to; all can be had from here.
"""

from rivermouth.errors.base import RivermouthError as RivermouthError
from rivermouth.errors.base import first_line as first_line
from rivermouth.errors.base import said_lines as said_lines
from rivermouth.errors.configuration import *
from rivermouth.errors.environment import *
from rivermouth.errors.kafka import *
from rivermouth.errors.lake import *
from rivermouth.errors.ledger import *
from rivermouth.errors.lookups import *
from rivermouth.errors.pipeline_settings import *
from rivermouth.errors.pipeline_sources import *
from rivermouth.errors.pipeline_sql import *
from rivermouth.errors.pipeline_targets import *
from rivermouth.errors.pipelines import *
from rivermouth.errors.running import *
from rivermouth.errors.tables import *
from rivermouth.errors.testing import *
