"""Studies: the question, the lab, the load and the points.

    load(name)                      id or path → Loaded (study, source, tables); UsageError says
                                    file:line:column
    expand(study, quick=…, seed=…)  pure: Study → Expanded (points × repetitions, in order)
    of_described(study.json)        pure: the study of a run
    study_schema()                  JSON Schema (draft-07) for editors

A study file is data: it runs no command, reads no file outside its folder, and connects only to the
hosts that it is given.
"""

from hakaru.study.expand import Expanded, Point, Repetition, expand, of_described
from hakaru.study.load import Fault, Loaded, faults_of, find_study, load, study_paths, title_of
from hakaru.study.model import Study
from hakaru.study.schema import study_schema

__all__ = [
    "Expanded",
    "Fault",
    "Loaded",
    "Point",
    "Repetition",
    "Study",
    "expand",
    "faults_of",
    "find_study",
    "load",
    "of_described",
    "study_paths",
    "study_schema",
    "title_of",
]
