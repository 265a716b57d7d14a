"""The package itself: its tour, its command, what importing it costs, what the wheel has for C."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import USABLE, module

import arraybridge as ab

HERE = Path(__file__).resolve().parent


def run(*command: str, timeout: float = 280, **keywords: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **keywords)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def test_the_tour(tmp_path: Path) -> None:
    module("torch")
    text = (HERE.parent / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    file = tmp_path / "tour.py"
    file.write_text(code, encoding="utf-8")
    printed = run(sys.executable, str(file))
    assert "host 1 ('consumer',)" in printed
    assert "arraybridge.Tensor(shape=(5,), strides=(1,), dtype='uint8', device='cpu')" in printed
    assert "byte order" in printed


def test_importing_loads_no_framework() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import arraybridge as ab; ab.convert([1, 2]); ab.plan(5);"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    loaded = run(sys.executable, "-c", code)
    for name in ("torch", "tensorflow", "jax", "cupy", "numba", "pyclesperanto", "pyopencl", "ml_dtypes", "rich"):
        assert f"'{name}'" not in loaded


SUBINTERPRETERS = """
import sys
try:
    import _interpreters as api

    create = lambda isolated: api.create("isolated" if isolated else "legacy")
    outcome = lambda id, code: getattr(api.exec(id, code), "msg", None)
except ImportError:
    import _xxsubinterpreters as api

    create = lambda isolated: api.create(isolated=isolated)

    def outcome(id, code):
        try:
            return api.run_string(id, code)
        except api.RunFailedError as error:
            return str(error)


def tell():
    for isolated in (False, True):
        id = create(isolated)
        print(outcome(id, f"import sys; sys.path[:] = {sys.path}; import arraybridge"))
        api.destroy(id)


tell()
import arraybridge as ab

print(ab.convert([1, 2]).sum())
tell()
print(ab.convert([3, 4]).sum())
"""


def test_subinterpreters_are_refused() -> None:
    try:
        told = run(sys.executable, "-W", "ignore", "-c", SUBINTERPRETERS, timeout=100).splitlines()
    except AssertionError as failure:
        if "No module named '_xxsubinterpreters'" in str(failure):
            pytest.skip("this Python has no subinterpreters")
        raise
    assert len(told) == 6 and (told[2], told[5]) == ("3", "7"), told
    for refusal in (told[0], told[1], told[3], told[4]):
        # Those with a GIL of their own Python refuses itself.
        assert "not by a subinterpreter" in refusal or "does not support loading in subinterpreters" in refusal, told


def test_every_public_name_is_there_and_documented() -> None:
    for name in ab.__all__:
        value = getattr(ab, name)
        if callable(value):
            assert value.__doc__, name
    assert set(ab.__all__) <= set(dir(ab))
    with pytest.raises(AttributeError, match="nonsense"):
        ab.nonsense  # noqa: B018


def test_c_programs_find_the_library(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    source = tmp_path / "main.c"
    source.write_text(
        "#include <arraybridge/arraybridge.h>\n#include <stdio.h>\nint main(void) { puts(ab_version()); }\n"
    )
    program = tmp_path / "main"
    library = Path(ab.get_library())
    run(
        str(compiler),
        str(source),
        "-I",
        ab.get_include(),
        str(library),
        f"-Wl,-rpath,{library.parent}",
        "-o",
        str(program),
    )
    assert run(str(program)).strip() == ab.__version__


def test_cmake_projects_find_the_library(tmp_path: Path) -> None:
    cmake = shutil.which("cmake") or pytest.skip("cmake is not installed")
    (tmp_path / "main.c").write_text("#include <arraybridge/arraybridge.h>\nint main(void) { return !ab_version(); }\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(sample C)\nfind_package(arraybridge 1.0 REQUIRED)\n"
        "add_executable(sample main.c)\ntarget_link_libraries(sample arraybridge::arraybridge)\n"
    )
    run(str(cmake), "-S", str(tmp_path), "-B", str(tmp_path / "b"), f"-Darraybridge_DIR={ab.get_cmake_dir()}")
    run(str(cmake), "--build", str(tmp_path / "b"))
    run(str(tmp_path / "b" / "sample"))
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(sample C)\nfind_package(arraybridge 2.0 REQUIRED)\n"
    )
    with pytest.raises(AssertionError, match="2.0"):
        run(str(cmake), "-S", str(tmp_path), "-B", str(tmp_path / "c"), f"-Darraybridge_DIR={ab.get_cmake_dir()}")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from arraybridge import __main__ as command

    found = json.loads(run(sys.executable, "-m", "arraybridge", "--json", "--no-matrix"))
    assert found["backends"][0]["name"] == "host"
    assert {entry["name"] for entry in found["frameworks"]} >= {"numpy", "cupy", "torch", "pyclesperanto"}
    names = [name for name in ("numpy", "torch") if USABLE[name]]
    cells = {source: command.row(source, names) for source in names}
    assert all(cell["right"] for row in cells.values() for cell in row.values())
    assert command.row("numpy", ["nothing"])["nothing"]["error"].startswith("InvalidMemoryTypeError")
    monkeypatch.setattr(command, "survey", lambda matrix=True: {**found, "matrix": cells})
    picture = tmp_path / "m.svg"
    assert command.main(["--plot", str(picture)]) == 0
    assert "zero copy" in capsys.readouterr().out
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert command.main([]) == 0
    assert "zero copy" in capsys.readouterr().out


def test_devices_and_backends() -> None:
    assert ab.devices()[0].pair == (1, 0)
    assert ab.backends()[0].available
    assert str(ab.Device(2, 1)) == "cuda:1"
    assert ab.convert(np.ones(3), device=ab.Device(1)).shape == (3,)


def test_a_framework_can_be_added() -> None:
    class Boxed:
        def __init__(self, array: object) -> None:
            self.array = array

    class BoxedAdapter(ab.Adapter):
        name = "boxed"
        import_name = "boxed"
        classes = frozenset({(__name__.partition(".")[0], "Boxed")})
        consumer = 0x1

        def export(self, x, lookup):  # type: ignore[no-untyped-def]
            return super().export(x.array, lookup)

        def take(self, tensor):  # type: ignore[no-untyped-def]
            return Boxed(np.asarray(tensor)), "numpy"

    from arraybridge import adapters

    ab.register(BoxedAdapter())
    try:
        x = np.arange(6.0)
        boxed, report = ab.convert(x, "boxed", report=True)
        assert report.zero_copy and isinstance(boxed, Boxed)
        assert ab.to_host(boxed).ctypes.data == x.ctypes.data
        assert ab.detect(boxed).framework == "boxed"
    finally:
        adapters._adapters.pop("boxed")
        adapters._of_class.clear()
    with pytest.raises(ab.InvalidMemoryTypeError):
        ab.register(5)  # type: ignore[arg-type]
