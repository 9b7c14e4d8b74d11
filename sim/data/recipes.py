"""Recipes: from the files that a source publishes to the one file that scenarios and experiments read."""

import csv
import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.config import Settings
from fedkme.errors import DataError, MissingDependencyError
from fedkme.tables.npz import npz_bytes

Originals = Mapping[str, bytes]
"""Content of the original files by their names, in the catalogue's order."""

_LARGEST = 200_000_000
"""Bytes of an unpacked original, at most."""
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class TextTable(Settings):
    """Form of originals that are lines of cells."""

    header: tuple[str, ...] = ()
    """Names of the columns; default: the first line has them."""
    gaps: tuple[str, ...] = ()
    """Cells that stand for nothing."""
    as_text: bool = False
    """Keep every cell as a text."""
    member: str = ""
    """Name of the file in an original that is a .zip."""
    column: str = ""
    """Column to add, which names the original of each row."""
    values: tuple[str, ...] = ()
    """Cell of that column for each original."""
    cut: str = ""
    """Ending to remove from the cells of the last column of the original."""


def parquet_of(originals: Originals, form: TextTable) -> bytes:
    """Content of one .parquet file made of originals of text, whose rows follow each other.

    Raises:
        DataError: an original has other columns, or is damaged.
        MissingDependencyError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        cause = "writing a .parquet file needs the package pyarrow"
        raise MissingDependencyError(cause, "Run: pip install 'fedkme[sim]'.") from None
    columns: dict[str, list[str | None]] = {}
    for place, (name, content) in enumerate(originals.items()):
        lines = _lines(name, content, form)
        header = form.header or tuple(next(lines, ()))
        added = [form.values[place]] if form.column else []
        names = [*header, *([form.column] if form.column else [])]
        if columns and list(columns) != names:
            raise DataError(f"{name} has other columns than the file before it", "Bring both again.")
        for line in lines:
            if len(line) != len(header):
                remedy = "Bring it again."
                raise DataError(f"{name} has a line of {len(line)} cells, not {len(header)}", remedy)
            line[-1] = line[-1].removesuffix(form.cut)
            for column, cell in zip(names, [*line, *added], strict=True):
                columns.setdefault(column, []).append(None if cell in form.gaps else cell)
    arrays = {name: cells if form.as_text else _typed(cells) for name, cells in columns.items()}
    written = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), written, compression="zstd")
    return written.getvalue()


def _lines(name: str, content: bytes, form: TextTable) -> Iterator[list[str]]:
    """Cells of each line that has any; a line of adult.test that begins with "|" is a remark."""
    if name.endswith(".zip"):
        content = _member(name, content, form.member)
    text = io.StringIO(unpacked(name, content).decode("utf-8"), newline="")
    for line in csv.reader(text, skipinitialspace=True):
        if any(line) and not line[0].startswith("|"):
            yield [cell.strip() for cell in line]


def unpacked(name: str, content: bytes) -> bytes:
    """Content of a file, unpacked if it is a .gz file.

    Raises:
        DataError: the file is damaged, or far larger than any of the originals.
    """
    if not name.endswith(".gz"):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            read = file.read(_LARGEST + 1)
    except (OSError, EOFError):
        raise DataError(f"{name} is damaged", "Bring it again.") from None
    if len(read) > _LARGEST:
        raise DataError(f"{name} is larger than {_LARGEST} bytes when unpacked", "Bring it again.")
    return read


def _member(name: str, content: bytes, member: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.getinfo(member).file_size > _LARGEST:
                raise DataError(f"{name} holds a file larger than {_LARGEST} bytes", "Bring it again.")
            return archive.read(member)
    except (zipfile.BadZipFile, KeyError):
        raise DataError(f"{name} is no .zip with {member}", "Bring it again.") from None


def _typed(cells: Sequence[str | None]) -> Sequence[Any]:
    """Numbers where every cell is one; texts otherwise."""
    distinct = {cell for cell in cells if cell is not None}
    if not all(map(_NUMBER.fullmatch, distinct)):
        return cells
    whole = None not in cells and all(cell.lstrip("-").isdigit() for cell in distinct)
    read: Mapping[str | None, Any] = {cell: int(cell) if whole else float(cell) for cell in distinct}
    return [read.get(cell) for cell in cells]


def images_npz(originals: Originals, form: TextTable) -> bytes:
    """x_train, y_train, x_test and y_test of the four idx files of MNIST or Fashion-MNIST.

    Raises:
        DataError: a file is no idx file of bytes.
    """
    names = ("x_train", "y_train", "x_test", "y_test")
    return npz_bytes({to: _idx(*each) for to, each in zip(names, originals.items(), strict=True)})


def _idx(name: str, content: bytes) -> NDArray[np.uint8]:
    """Array of an idx file: 0, 0, 8 (bytes), the number of axes, the length of each axis, the values."""
    content = unpacked(name, content)
    axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    shape = tuple(np.frombuffer(content, ">u4", axes, 4).tolist()) if len(content) >= 4 + 4 * axes else ()
    if not shape or len(content) != 4 + 4 * axes + int(np.prod(shape)):
        raise DataError(f"{name} is no idx file of bytes", "Bring it again.")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def codes_npz(originals: Originals, form: TextTable) -> bytes:
    """`data`, the integer codes of a .npy file, in two bytes each."""
    ((_, content),) = originals.items()
    return npz_bytes({"data": np.load(io.BytesIO(content), allow_pickle=False).astype(np.int16)})


def isolet_npz(originals: Originals, form: TextTable) -> bytes:
    """`x`, `y` and `site` (1 to 5) of the five parts in MATLAB's format."""
    from scipy.io import loadmat

    parts = [loadmat(io.BytesIO(content)) for content in originals.values()]
    return npz_bytes(
        {
            "x": np.concatenate([part["fea"] for part in parts]).astype(np.float32),
            "y": np.concatenate([part["gnd"].ravel() for part in parts]).astype(np.uint8),
            "site": np.repeat(np.arange(1, 6), [len(part["fea"]) for part in parts]).astype(np.uint8),
        }
    )


_CHUNKS, _SAMPLES = 23, 178
_CLASSES: Mapping[str, int] = {"S": 1, "F": 2, "N": 3, "O": 4, "Z": 5}
"""Class of a recording of the Bonn EEG by the first letter of its name; 1 is a seizure."""


def epileptic_npz(originals: Originals, form: TextTable) -> bytes:
    """`x`, `y`, `recording` and `chunk`: each recording of 4097 samples in 23 chunks of 178, as UCI cut them.

    Raises:
        DataError: the archive is damaged, or holds other recordings.
    """
    ((name, content),) = originals.items()
    signals: dict[str, NDArray[np.int16]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.namelist():
            recording = member.rpartition("/")[2].rpartition(".")[0].upper()
            if re.fullmatch("[SFNOZ][0-9]{3}", recording):
                signals[recording] = np.array(archive.read(member).split(), np.int16)
    if len(signals) != 100 * len(_CLASSES) or any(
        len(each) < _CHUNKS * _SAMPLES for each in signals.values()
    ):
        raise DataError(f"{name} does not hold the 500 recordings", "Bring it again.")
    names = sorted(signals, key=lambda each: (-_CLASSES[each[0]], each))
    cut = [signals[each][: _CHUNKS * _SAMPLES].reshape(_CHUNKS, _SAMPLES) for each in names]
    return npz_bytes(
        {
            "x": np.concatenate(cut),
            "y": np.repeat([_CLASSES[each[0]] for each in names], _CHUNKS).astype(np.uint8),
            "recording": np.repeat(names, _CHUNKS),
            "chunk": np.tile(np.arange(1, _CHUNKS + 1), len(names)).astype(np.uint8),
        }
    )


def as_it_is(originals: Originals, form: TextTable) -> bytes:
    """The original itself."""
    (content,) = originals.values()
    return content


RECIPES: Mapping[str, Callable[[Originals, TextTable], bytes]] = {
    "as-it-is": as_it_is,
    "parquet": parquet_of,
    "images": images_npz,
    "codes": codes_npz,
    "isolet": isolet_npz,
    "epileptic": epileptic_npz,
}
"""Recipes by their names in the catalogue."""
