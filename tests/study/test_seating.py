"""The assignment of VMs to LUs."""

from __future__ import annotations

from hakaru.kinds.vms.seating import Seat, seat, seats
from hypothesis import given
from hypothesis import strategies as st

COLUMNS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=5)


def test_vms_alternate_between_columns_and_fill_each_lu_by_lu() -> None:
    columns = [[2, 2], [2, 2]]
    dealt = [seat(columns, vm) for vm in range(9)]
    assert dealt[:5] == [Seat(0, 0, 0), Seat(1, 0, 0), Seat(0, 0, 1), Seat(1, 0, 1), Seat(0, 1, 0)]
    assert dealt[8] is None


@given(COLUMNS)
def test_every_vm_has_its_own_seat_and_one_too_many_has_none(columns: list[list[int]]) -> None:
    count = seats(columns)
    dealt = [seat(columns, vm) for vm in range(count)]
    assert None not in dealt
    assert len(set(dealt)) == count
    assert seat(columns, count) is None


def test_lu_of_unknown_size_takes_all_of_its_column() -> None:
    assert seat([[None]], 1000) == Seat(0, 0, 1000)
