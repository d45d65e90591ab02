"""Tuning: finds the settings of iSCSI and TCP that carry one load best over one path, by measuring.

    conditions    what is given: round trip, loss, rate, block, direction, depth
    knobs         what can be turned, on which side, in which steps; a `Settings` is one position of
                  every knob
    closed_form   what a setting must come to at best, and the setting that follows from that alone
    memory        what a setting takes of both machines
    search        the next setting to try (optuna's TPE), from those tried; pure
    contribution  what each knob is worth: switched back one at a time, with intervals; pure
    tuning        the course of it all: which measurement comes next, from those made; pure, so that
                  it can be resumed
    study         the study whose points the trials are
    run           the shell: lab or target, one repetition per trial, a run directory
    advice        ready text for open-iscsi, LIO, tgt and Linux

A *trial* is one measurement. Nothing here knows the time or draws a random number that does not
follow from the seed.
"""
