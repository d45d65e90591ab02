"""Descriptions of trees in files, for `hakaru files build`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from hakaru.errors import UsageError
from hakaru.files.tree import TreeSpec
from hakaru.study.document import read_document
from hakaru.study.explain import explain
from hakaru.study.load import validate
from hakaru.study.part import Part

HINT = "docs/reference/files.md describes the fields"


class TreeFile(Part):
    """A file with `tree:`, as `hakaru files survey` writes it."""

    tree: TreeSpec = Field(description="the trees")


def load_tree(path: Path | None, changes: dict[str, object]) -> TreeSpec:
    """Load a description, with some fields replaced by the options of the same names. Without a
    file: the published trees.

    Raises UsageError with file, line and column, or with the option.
    """
    if path is None:
        try:
            return TreeSpec.model_validate(changes)
        except ValidationError as error:
            fault = next(explain(changes, TreeSpec, error))
            # A fault of several fields together is about no option alone.
            message = f"--{fault.message}" if fault.path else fault.message.removeprefix("the file: ")
            raise UsageError(message, fault.hint or HINT) from error
    document = read_document(path)
    if isinstance(document.data, dict) and isinstance(document.data.get("tree"), dict):
        document.data["tree"].update(changes)
    return validate(document, TreeFile, HINT).tree
