"""Archives of plain arrays whose bytes depend on the arrays alone: no time, no compression, no pickle."""

import io
import lzma
import struct
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import DataError

_EPOCH = (1980, 1, 1, 0, 0, 0)


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """An .npz file that `numpy.load` reads; the same arrays in the same order give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(array, order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), content.getvalue())
    return out.getvalue()


MALFORMED = (
    *(
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        struct.error,
        tokenize.TokenError,
        SyntaxError,
        EOFError,
    ),
    *(ValueError, TypeError, KeyError, NotImplementedError, RuntimeError, MemoryError, OverflowError),
)
"""Errors that a damaged or foreign archive of arrays may cause."""
HEADERS = threading.Lock()
"""Lock for reading arrays: numpy parses their headers, and parsing in several threads at once fails in
CPython before 3.11.8 (its issue 106905)."""


def npz_arrays(data: bytes, source: str) -> dict[str, NDArray[Any]]:
    """Read the arrays that `npz_bytes` wrote, by name; `source` names the data in errors.

    Raises:
        DataError: the data are something else, such as compressed members (which may be of any size) or
            pickled objects.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            arrays = {}
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
                    raise ValueError(member.filename)
                content = io.BytesIO(archive.read(member))
                name = member.filename.removesuffix(".npy")
                with HEADERS:
                    arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
            return arrays
    except (*MALFORMED, OSError) as error:
        raise DataError(f"{source} is not an archive of plain arrays", "Fetch the release again.") from error
