"""Which VM uses which LU."""

from __future__ import annotations

from hakaru.kinds.vms.seating import Seat, seat, seats
from hypothesis import given
from hypothesis import strategies as st

COLUMNS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=5)


def test_vms_are_dealt_to_columns_in_turn_and_fill_each_lu_by_lu() -> None:
    columns = [[2, 2], [2, 2]]
    dealt = [seat(columns, vm) for vm in range(9)]
    assert dealt[:5] == [Seat(0, 0, 0), Seat(1, 0, 0), Seat(0, 0, 1), Seat(1, 0, 1), Seat(0, 1, 0)]
    assert dealt[8] is None


@given(COLUMNS)
def test_as_many_vms_as_there_are_seats_sit_apart_and_one_more_finds_none(columns: list[list[int]]) -> None:
    count = seats(columns)
    dealt = [seat(columns, vm) for vm in range(count)]
    assert None not in dealt
    assert len(set(dealt)) == count
    assert seat(columns, count) is None


def test_lu_of_unknown_size_takes_all_of_its_column() -> None:
    assert seat([[None]], 1000) == Seat(0, 0, 1000)
