"""Tuning: finds the settings of iSCSI and TCP that carry one load best over one path, by measuring.

    conditions    path and load: round trip, loss, rate, block, direction, depth
    knobs         the settings that can be changed, on which side, and their levels; a `Settings`
                  has one value for every knob
    closed_form   upper bound of a setting's throughput, and the setting that the bound suggests
    memory        buffer memory that a setting needs on both machines
    search        proposes the next setting from the trials made (optuna's TPE); pure
    contribution  effect of each knob: reverted one at a time, with intervals; pure
    tuning        the whole procedure: the next measurement, from those made; pure, so that it can
                  be resumed
    study         the study whose points are the trials
    run           runs the tuning in a lab or against a target, one repetition per trial
    advice        configuration text for open-iscsi, LIO, tgt and Linux

A *trial* is one measurement. Only `run` reads the clock. Every random number follows from the seed.
"""
