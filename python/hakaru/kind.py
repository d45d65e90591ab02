"""Kinds of study: their interface, the registry of installed kinds, and the kind of a study or run.

    of(study)           the kind that the study's `load:` names, or that the run.json of a run names
    named("copy")       the kind of that name; UsageError for an unknown name
    registered()        every kind, by its name

A kind is one object, `KIND`, that a package declares as an entry point of the group `hakaru.kinds`.
hakaru declares its own kinds in the same way (pyproject.toml), so a kind of another package needs
no change here. This module imports no kind and, of hakaru, only `errors`. Every package may use it,
and no package names a kind.

A kind has these parts. Each part is used by one package, which defines its interface. By default a
part is an object in the module of the same name in the kind's package (`STUDY` in `study`, …):

    study      hakaru.study.kind.StudyKind            its part of the study file, checks, factors,
                                                      names of metrics
    run        hakaru.run.kind.RunKind                engine configurations, estimates, live rates
    analysis   hakaru.analysis.kind.AnalysisKind      samples to metrics, rules, findings
    report     hakaru.report.kind.ReportKind          rows of the terminal's table, sections and
                                                      figures of the report
    tune       hakaru.tune.kind.TuneKind              optional: the study whose points a tuning
                                                      tries
    template   the files `template.en.yaml` and       optional: the study that `hakaru init` writes
               `template.ja.yaml`
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from hakaru.errors import EnvironmentError_, UsageError

GROUP = "hakaru.kinds"


class Kind:
    """A kind of study. A part is imported on first access, so `hakaru plan` loads no analysis.

    Each part is an object in a module of the kind's own package. A kind whose package has the
    modules `study`, `run`, `analysis` and `report` only needs to define its name.
    """

    name: ClassVar[str]
    """The name of the entry point, `load.kind` in the study file and `kind` in run.json."""

    in_studies: ClassVar[bool] = True
    """Whether a study may name this kind. If False, only a dedicated command makes runs of this
    kind.
    """

    @property
    def folder(self) -> Path:
        """The folder of the kind; its catalogues are `locale/en.po` and `locale/ja.po` in it."""
        return Path(inspect.getfile(type(self))).resolve().parent

    @property
    def study(self) -> Any:
        """A `hakaru.study.kind.StudyKind`. Default: `STUDY` of the module `study` beside this
        kind.
        """
        return self._part("study")

    @property
    def run(self) -> Any:
        """A `hakaru.run.kind.RunKind`. Default: `RUN` of the module `run` beside this kind."""
        return self._part("run")

    @property
    def analysis(self) -> Any:
        """A `hakaru.analysis.kind.AnalysisKind`. Default: `ANALYSIS` of the module `analysis`
        beside this kind.
        """
        return self._part("analysis")

    @property
    def report(self) -> Any:
        """A `hakaru.report.kind.ReportKind`. Default: `REPORT` of the module `report` beside this
        kind.
        """
        return self._part("report")

    @property
    def tune(self) -> Any:
        """A `hakaru.tune.kind.TuneKind`. Default: `TUNE` of the module `tune` beside this kind, or
        None without such a module. Without this part, `hakaru tune` cannot search the settings of
        this kind.
        """
        return self._part("tune") if (self.folder / "tune.py").is_file() else None

    def template(self, language: str) -> Path | None:
        """The commented study that `hakaru init` writes, in a language; None if the kind has none.

        It is a complete study of about 20 lines that runs in one minute. Its first line names the
        schema `study.schema.json`, and its id is `my-study`. Default: `template.LANGUAGE.yaml` in
        the folder of the kind.
        """
        path = self.folder / f"template.{language}.yaml"
        return path if path.is_file() else None

    def _part(self, name: str) -> Any:
        """The object `NAME` of the module `name` in this kind's package. Raises EnvironmentError_
        if it does not exist.
        """
        module = f"{type(self).__module__}.{name}"
        try:
            return getattr(importlib.import_module(module), name.upper())
        except (ModuleNotFoundError, AttributeError) as e:
            if isinstance(e, ModuleNotFoundError) and e.name not in (module, type(self).__module__):
                raise
            hint = f"its package must have a module {name!r} with an object {name.upper()}, or override `{name}`"
            raise EnvironmentError_(f"the kind of study {self.name!r} has no part {name!r}: {e}", hint) from e


class HasKind(Protocol):
    """A study, or the data of a run."""

    @property
    def kind(self) -> str:
        """The kind's name."""
        ...


def of(subject: HasKind) -> Kind:
    """The kind of a study or run. Raises UsageError if no installed package provides it."""
    return named(subject.kind)


def named(name: str) -> Kind:
    """The kind called `name`. Raises UsageError if no installed package provides it."""
    kinds = registered()
    if name not in kinds:
        hint = f"installed kinds are {', '.join(sorted(kinds)) or 'none'}; install the package that provides {name!r}"
        raise UsageError(f"no kind of study named {name!r}", hint)
    return kinds[name]


@functools.cache
def registered() -> Mapping[str, Kind]:
    """Every installed kind, by name. Raises EnvironmentError_ for an unusable entry point."""
    return MappingProxyType({point.name: _load(point) for point in sorted(entry_points(group=GROUP))})


def of_studies() -> dict[str, Kind]:
    """Every kind that a study may name, by name."""
    return {name: each for name, each in registered().items() if each.in_studies}


def _load(point: EntryPoint) -> Kind:
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as e:
        hint = "reinstall the package that declares it, or uninstall that package"
        raise EnvironmentError_(f"the kind of study {point.name!r} ({point.value}) cannot be loaded: {e}", hint) from e
    if not isinstance(loaded, Kind) or loaded.name != point.name:
        hint = f"its entry point in the group {GROUP} must name a `hakaru.kind.Kind` whose `name` is {point.name!r}"
        raise EnvironmentError_(f"{point.value} is not the kind of study {point.name!r}", hint)
    return loaded
