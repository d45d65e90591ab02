"""Guests of `hakaru.guest` in tests: their own functions, and open-iscsi in one of them as an
initiator that hakaru did not write.

Tests without `guest` or `image` among their fixtures boot nothing. The others share one guest per
process, because booting takes most of the time where QEMU emulates the processor (TCG). It is about
20 times slower there, so the speed of a guest never measures an array.
"""
