"""Secrets of a configuration that another machine uses.

The files of secrets are on this machine. Their contents are sent over the encrypted connection, to
the engine's stdin, and are never stored on the other machine.
"""

from __future__ import annotations

from pathlib import Path

from hakaru.engine import contract
from hakaru.errors import UsageError


def with_secrets(config: contract.EngineConfig) -> contract.EngineConfig:
    """Return the configuration with the contents of secret files in place of their paths. Raises
    UsageError if one cannot be read.
    """
    chap = getattr(config, "chap", None)
    if not isinstance(chap, contract.ChapConfig):
        return config
    target = chap.target and _with_text(chap.target)
    return config.model_copy(update={"chap": chap.model_copy(update={"user": _with_text(chap.user), "target": target})})


def _with_text(user: contract.ChapUser) -> contract.ChapUser:
    if not isinstance(user.secret, contract.SecretFile):
        return user
    try:
        text = Path(user.secret.path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"{user.secret.path} cannot be read: {reason}", "it holds the secret of a CHAP user as its only line"
        ) from error
    # The engine checks length and characters, as for a file of its own machine.
    secret = contract.SecretText(text=text.removesuffix("\n").removesuffix("\r"))
    return user.model_copy(update={"secret": secret})
