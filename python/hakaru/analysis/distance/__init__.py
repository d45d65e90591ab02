"""Loads over a distance: how far from closed-form bounds a load stays, and what limits it.

    study.json ── setup ── bounds ──> what is possible
        counters ── measures, timeline ──> what was measured
        points ── limiter ──> findings

Vocabulary: a *request* (a block) goes as one *command* or several; a *turn* is one round trip that
a command waits for (for an R2T, or for its response); *payload rate* is what the narrowest link
carries of data, less the headers of Ethernet, IP, TCP and iSCSI; the *bound* of a point is the
lowest of its closed forms.
"""
