"""Where each thread of this process stands: what the log says of a process that ends because it hangs."""

import sys
import threading
import traceback
from typing import Final

MAX_FRAMES: Final = 12


def where_threads_are() -> dict[str, list[str]]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {
        names.get(ident, str(ident)): [
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_stack(top)[-MAX_FRAMES:]
        ]
        for ident, top in sys._current_frames().items()  # noqa: SLF001  documented, and there is no other
    }
