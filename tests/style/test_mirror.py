"""The tests mirror the tree, so that the test of a file is found without searching."""

from __future__ import annotations

from tests.style.sources import PACKAGES, ROOT, name, python_files

# Folders of tests that cover several modules together.
TOGETHER = {"style", "graph", "smoke", "oracles", "golden"}
# Wiring, tested as a graph and end to end.
WIRING = ("assets/", "jobs/", "gem_pipeline/definitions.py")
# Declarations without behaviour.
DECLARATIONS = {"gem_pipeline/errors.py", "gem_pipeline/datasets/source.py"}


def test_every_module_has_its_test():
    missing = []
    for path in python_files(*PACKAGES):
        module = name(path)
        if path.name == "__init__.py" or module.startswith(WIRING) or module in DECLARATIONS:
            continue
        inner = (
            path.relative_to(ROOT / "gem_pipeline") if module.startswith("gem_pipeline/") else path.relative_to(ROOT)
        )
        test = ROOT / "tests" / inner.parent / f"test_{path.name}"
        if not test.exists():
            missing.append(f"{module} -> {name(test)}")
    assert missing == [], "\n".join(missing)


def test_every_test_has_its_module():
    strangers = []
    for path in python_files("tests"):
        inner = path.relative_to(ROOT / "tests")
        if not path.name.startswith("test_") or inner.parts[0] in TOGETHER:
            continue
        module = inner.parent / path.name.removeprefix("test_")
        folder = module.parent / module.stem  # a package tested as a whole
        candidates = (ROOT / "gem_pipeline" / module, ROOT / module, ROOT / "gem_pipeline" / folder, ROOT / folder)
        if not any(candidate.exists() for candidate in candidates):
            strangers.append(name(path))
    assert strangers == [], "\n".join(strangers)
