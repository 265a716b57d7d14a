"""The module surfaces of other packages: ``compat.dlpack`` is pydlpack's, ``compat.tfdlpack`` tfdlpack's."""
