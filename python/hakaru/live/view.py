"""The state of a run as a page shows it: plain JSON, in one language."""

from __future__ import annotations

from typing import Any

from hakaru.live import words
from hakaru.live.state import Point, State
from hakaru.wording import say


def view(state: State, language: str) -> dict[str, Any]:
    """Everything that the page of a run in progress shows. Numbers of series stay numbers."""
    points = list(state.points.values())
    analysed = next((point for point in points if point.cells), None)
    titles = [title for title, _ in words.others(analysed)] if analysed else []
    names = words.point_names(points, language)
    return {
        "run": state.run,
        "study": state.study,
        "title": state.title.get(language) or state.title.get("en", ""),
        "status": state.status,
        "status_text": words.status(state, language),
        "has_ended": state.has_ended,
        "is_complete": state.has_ended and not state.left_s,
        "detail": state.detail,
        "now": state.text,
        "repetition": state.repetition,
        "at": state.at,
        "left_s": state.left_s,
        "done": state.done,
        "total": state.total,
        "result": words.result(analysed)[0] if analysed else say(language, "live.result"),
        "tail": words.tail(analysed)[0] if analysed else "p99",
        "others": titles,
        "points": [{"name": names[p.id], **_row(p, state, titles, language)} for p in points],
        "series": {
            "at": list(state.series.at),
            "rates": [
                {"name": words.rate_name(name, language), "values": list(values)}
                for name, values in state.series.rates.items()
            ],
            "queues": [
                {"name": words.queue_name(name, language), "values": list(values)}
                for name, values in state.series.queues.items()
            ],
        },
    }


def _row(point: Point, state: State, titles: list[str], language: str) -> dict[str, Any]:
    cells = dict(words.others(point))
    return {
        "id": point.id,
        "is_current": point.id == state.current,
        "done": len(point.ended),
        "failed": point.failed,
        "planned": point.planned,
        "result": words.result(point)[1],
        "tail": words.tail(point)[1],
        "limiter": words.limiter(point, language),
        "valid": point.valid,
        "caveats": words.caveats(point, language),
        "others": [cells.get(title, "") for title in titles],
    }
