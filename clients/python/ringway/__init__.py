"""A client of a Ringway member, for asyncio. It needs Python 3.9 and nothing else.

>>> client = await ringway.Client.connect()
>>> sent = await client.send(["report.pdf"], ["oslo"])
>>> (await client.wait(sent[0]["id"]))["state"]
'done'
"""

from .client import Client, Event
from .errors import (
    Closed,
    Incompatible,
    NotPermitted,
    NotRunning,
    Refused,
    RingwayError,
    Unexpected,
)
from .place import usual_socket
from .stream import Listener, Stream

__all__ = [
    "Client",
    "Closed",
    "Event",
    "Incompatible",
    "Listener",
    "NotPermitted",
    "NotRunning",
    "Refused",
    "RingwayError",
    "Stream",
    "Unexpected",
    "usual_socket",
]
