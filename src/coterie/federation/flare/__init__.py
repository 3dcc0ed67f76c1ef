"""The line between parties, over the F3 layer of NVFlare: all that knows of NVFlare is in this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coterie.core.errors import BadInput

if TYPE_CHECKING:
    from coterie.federation.flare.line import Line


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Around the import of what needs NVFlare, which is not needed for anything else."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("nvflare", "msgpack"):
            raise
        raise BadInput("a federation needs NVFlare: pip install 'coterie[network]'") from None


def new_line(*args: Any) -> Line:
    with installed():
        from coterie.federation.flare.line import Line
    return Line(*args)
