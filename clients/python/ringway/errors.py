"""Why a request got no answer, or a refusal."""

from typing import Any, Dict


class RingwayError(Exception):
    """The root of all of them."""


class NotRunning(RingwayError):
    """No member daemon listens at the socket."""


class NotPermitted(RingwayError):
    """The socket is another user's."""


class Closed(RingwayError):
    """The daemon ended before it had answered."""


class Incompatible(RingwayError):
    """The daemon is of another version. `daemon` is what it says of itself."""

    def __init__(self, message: str, daemon: Dict[str, Any]) -> None:
        super().__init__(message)
        self.daemon = daemon


class Unexpected(RingwayError):
    """The daemon answered something else than was asked."""


class Refused(RingwayError):
    """The daemon refused or failed. `usage` is true where what was asked was wrong."""

    def __init__(self, message: str, usage: bool) -> None:
        super().__init__(message)
        self.usage = usage
