"""What laws that draw one large example share."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def chance(request):
    """Another one for each test and each ``--hypothesis-seed``.

    Hypothesis itself begins with the simplest example, whatever its seed: of one example alone it is always that.
    """
    return random.Random(f"{request.config.getoption('--hypothesis-seed')} {request.node.name}")
