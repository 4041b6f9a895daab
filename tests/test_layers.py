"""Imports go one way: down the layers, or along one, and never in a circle."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest
from support import ROOT

LAYERS = [
    "errors",
    "files config vote verdict metrics forensic recalibration plots",
    "data",
    "network",
    "runtime",
    "populations document",
    "verifier",
    "engines",
    "commands training",
    "cli __main__",
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
PACKAGE = ROOT / "pan21av"


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


# models/ holds weights, no modules.
FILES = {module_name(path): path for path in PACKAGE.rglob("*.py") if "models" not in path.parts}


def imported(node):
    """The import statements under a node, those of functions too; what is for the type checker alone is left out."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        yield from imported(child)


def targets(name):
    """Modules of the package that a module imports."""
    path = FILES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in imported(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "pan21av")
        elif node.level or (node.module or "").split(".")[0] == "pan21av":
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                # The number of the version is all that anyone takes from the package itself.
                if inner != "pan21av.__version__":
                    yield inner if inner in FILES else base


GRAPH = {name: set(targets(name)) for name in FILES if name != "pan21av"}


def test_the_modules_are_found():
    assert GRAPH.keys() >= {"pan21av.cli", "pan21av.network.encoder", "pan21av.training.run", "pan21av.engines"}
    assert {"pan21av.verifier", "pan21av.engines.engine"} & GRAPH["pan21av.engines.local"] == {"pan21av.verifier"}
    assert "pan21av.engines.on_ray" in GRAPH["pan21av.engines.engine"]  # inside a function
    assert {name.split(".")[1] for name in GRAPH} == LEVEL.keys(), "a module without a layer, or a layer without one"


def test_imports_point_down():
    upwards = [
        f"{name} imports {target}"
        for name, found in GRAPH.items()
        for target in found
        if target == "pan21av" or LEVEL[target.split(".")[1]] > LEVEL[name.split(".")[1]]
    ]
    assert not upwards


def test_there_are_no_circles():
    list(TopologicalSorter(GRAPH).static_order())  # CycleError names one


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        (["pan21av", "pan21av.cli"], {"torch", "ray", "nltk", "pan21av.data.tokeniser"}),
        # What worker processes load that tokenise.
        (["pan21av.data.tokeniser", "pan21av.runtime.parallel"], {"torch", "ray", "nltk"}),
        pytest.param(
            ["pan21av.verifier", "pan21av.engines"], {"ray", "scipy", "sklearn", "matplotlib"}, marks=pytest.mark.slow
        ),
    ],
)
def test_what_is_loaded(modules, absent):
    """Seconds of every start, and memory of every worker."""
    script = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(modules) <= set(loaded)
    assert not absent & set(loaded)
