"""Control of `hakaru-engine`: its contract (`contract`), the exchange with a running engine
(`session`), one of its processes on this machine (`process`) and its clock (`clock`).
"""
