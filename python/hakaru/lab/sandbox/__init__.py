"""The sandbox: namespaces in which a command restarts itself, and that vanish with it.

sandbox.enter()          returns only inside; call it before threads, temporary files or event loops
sandbox.current()        the Sandbox that this process is in, or None
sandbox.check()          raises EnvironmentError_ where this machine allows no sandbox
"""

from hakaru.lab.sandbox.entry import Sandbox, check, current, enter, explain, kind_here

__all__ = ["Sandbox", "check", "current", "enter", "explain", "kind_here"]
