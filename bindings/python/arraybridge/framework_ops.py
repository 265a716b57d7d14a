"""The table of the frameworks, under the name it had before it moved to ``framework_config``."""

from arraybridge.framework_config import _FRAMEWORK_CONFIG

_FRAMEWORK_OPS = _FRAMEWORK_CONFIG
