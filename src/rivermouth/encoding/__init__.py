"""How columns become values of a format: the other way of ``decoding``."""
