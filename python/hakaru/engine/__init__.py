"""Control of `hakaru-engine`: its contract (`contract`), the exchange with a running engine
(`session`), an engine behind the pipes of a child process (`child`), one on this machine
(`process`), its clock (`clock`), and the offset of another clock (`offset`).
"""
