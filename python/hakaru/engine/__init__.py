"""Control of `hakaru-engine`: its contract (`contract`), one of its processes (`process`) and its
clock (`clock`).
"""
