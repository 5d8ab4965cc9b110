"""Where a secret is read from: one file for each provider, with the name before the colon in ``${file:...}``.

A provider is a function from a reference to the secret's text. Packages of their own can bring more, as entry points
of the group ``rivermouth.secrets``.
"""
