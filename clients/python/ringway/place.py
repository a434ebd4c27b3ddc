"""Where a member's daemon is reached."""

import os
from pathlib import Path
from typing import Optional, Union

from .errors import NotRunning

#: Where commands reach the member that is a service of this machine.
SERVICE_SOCKET = Path("/run/ringway/node/control.sock")


def usual_socket(home: Optional[Union[str, Path]] = None) -> Path:
    """The control socket that `ringway` would use: that of `home`, else of the folder that
    RINGWAY_HOME names, else of the user's own member, else of this machine's service."""
    chosen = home or os.environ.get("RINGWAY_HOME")
    if chosen:
        return Path(chosen) / "control.sock"
    data = os.environ.get("XDG_DATA_HOME")
    if not data and not os.environ.get("HOME"):
        raise NotRunning("no home folder: set HOME or RINGWAY_HOME, or name one")
    own = Path(data or Path(os.environ["HOME"]) / ".local" / "share") / "ringway"
    if not (own / "ringway.toml").exists() and SERVICE_SOCKET.exists():
        return SERVICE_SOCKET
    return own / "control.sock"
