"""Where a secret is read from: one file a provider; its name stands before the colon of ``${file:...}``.

A provider is a function from a reference to the secret's text. Packages of their own can bring more, as entry points
of the group ``rivermouth.secrets``.
"""
