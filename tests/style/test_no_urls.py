"""No file names a package registry, a machine's own path, or anything beyond ASCII in code."""

from __future__ import annotations

from tests.style.sources import PACKAGES, ROOT, name, python_files, text_files

REGISTRIES = tuple(
    f"{host}.{domain}"
    for host, domain in (
        ("pypi", "org"), ("pythonhosted", "org"), ("repo1.maven", "org"), ("maven.apache", "org"), ("npmjs", "org"),
        ("npmjs", "com"), ("crates", "io"), ("proxy.golang", "org"), ("deb.debian", "org"), ("download.pytorch", "org"),
    )
)  # fmt: skip
MACHINE_PATHS = tuple(f"/{folder}/" for folder in ("work", "root", "home"))


def test_no_file_names_a_registry():
    found = [f"{name(path)}: {host}" for path in text_files() for host in REGISTRIES if host in path.read_text()]
    assert found == [], "\n".join(found)


def test_no_file_names_a_path_of_one_machine():
    found = [
        f"{name(path)}: {place}"
        for path in text_files()
        for place in MACHINE_PATHS
        if f'"{place}' in path.read_text() or f" {place}" in path.read_text()
    ]
    assert found == [], "\n".join(found)


def test_pins_carry_no_host_and_no_hash():
    for file in ("pyproject.toml", "constraints.txt"):
        text = (ROOT / file).read_text()
        assert "://" not in text, file
        assert "--hash" not in text, file


def test_code_is_ascii():
    assert [
        name(path) for path in python_files(*PACKAGES, "tests", "benchmarks") if not path.read_text().isascii()
    ] == []
