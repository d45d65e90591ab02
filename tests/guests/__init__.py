"""Guests of `hakaru.guest` in tests: their own functions, and open-iscsi in one of them as an
initiator that hakaru did not write.

Tests that use the fixture `image` are marked `guest`. All others boot nothing and belong to the
gate. The marked ones share one guest per process where they can, because booting takes most of the
time where QEMU emulates the processor (TCG). It is about 20 times slower there, so the speed of a
guest never measures an array.
"""
