"""Names of arraybridge 0.2 and 0.5, and the modules that they come from."""

NAMES: dict[str, str] = {}
