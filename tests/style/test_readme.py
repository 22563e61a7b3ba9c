"""What the documents tell a reader to run or open exists."""

from __future__ import annotations

import re

import pytest

from gem_pipeline import cli
from tests.style.sources import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def commands() -> set[str]:
    actions = cli._parser()._subparsers._group_actions
    return set(actions[0].choices)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_of_a_page_exists(page):
    assert set(re.findall(r"\bmake ([a-z][a-z-]+)\b(?=[`\s]|$)", code_of(page.read_text()))) <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_gem_command_of_a_page_exists(page):
    assert set(re.findall(r"\bgem ([a-z]+)\b", code_of(page.read_text()))) <= commands()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_file_of_a_page_exists(page):
    text = page.read_text()
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    paths = re.findall(r"`((?:gem_pipeline|assets|jobs|resources|spark|tests|docs|benchmarks)/[\w./-]*)`", text)
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert missing == [], "\n".join(missing)


def test_readme_names_the_two_commands_and_the_credit():
    text = (ROOT / "README.md").read_text()
    for words in ("make demo", "make test", "Apache-2.0", "CC BY-SA 4.0"):
        assert words in text


def test_every_make_target_is_documented():
    documented = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert documented == TARGETS


def code_of(text: str) -> str:
    """The code blocks and code spans of a page."""
    blocks = re.findall(r"```.*?\n(.*?)```", text, flags=re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))])
