"""One zstd frame, level 3, with its checksum: made, and read to its very end.

The standard library's module (its backport before Python 3.14) knows a frame's end; others read a cut one without an
error.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from ops.workspaces.archive_store.failures import archive_corrupted

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL: Final = 3
READ_BYTES: Final = 1 << 20
_OPTIONS: Final[dict[int, int]] = {
    zstd.CompressionParameter.compression_level: LEVEL,
    zstd.CompressionParameter.checksum_flag: 1,
}


def frame_compressor() -> "zstd.ZstdCompressor":
    """Ends its frame by `flush()`; what comes before that is no archive."""
    return zstd.ZstdCompressor(options=_OPTIONS)


def decompressed_frames(content: Iterable[bytes]) -> Iterator[bytes]:
    """Raises DriverCorrupt for a frame that is cut, changed, or followed by anything.

    What it has given by then is not to be trusted: only its end says that the whole is right.
    """
    frame = zstd.ZstdDecompressor()
    for chunk in content:
        if not chunk:
            continue
        if frame.eof:
            raise archive_corrupted("something follows the end of the archive")
        left = chunk
        while True:
            try:
                plain = frame.decompress(left, READ_BYTES)
            except zstd.ZstdError as error:
                raise archive_corrupted(f"the archive is not what zstd wrote: {error}") from error
            left = b""
            if plain:
                yield plain
            if frame.eof or frame.needs_input:
                break
        if frame.unused_data:
            raise archive_corrupted("something follows the end of the archive")
    if not frame.eof:
        raise archive_corrupted("the archive is cut before its end")
