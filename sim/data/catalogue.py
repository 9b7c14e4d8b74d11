"""Catalogue of the public data sets, catalogue.toml: what each holds, and where its originals are."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedkme.config import Settings, load_toml, validate
from fedkme.tables.cells import texts
from fedkme.tables.files import read_arrays, read_columns
from sim.data.recipes import RECIPES, TextTable

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256 in hex."""


class Original(Settings):
    """One file that a source publishes."""

    name: str
    """Name of the file."""
    urls: tuple[str, ...] = ()
    """Addresses of the same bytes, the source's own first; none: everybody has to ask the source."""
    sha256: Digest | None = None
    """SHA-256 of the bytes; None where the source was not seen: then the content alone is checked."""
    size: int = Field(default=100_000_000, ge=1)
    """Bytes, at most."""


class PublicSet(Settings):
    """One public data set: one file in the folder of the data, $FEDKME_DATA."""

    file: str
    """Path in that folder."""
    what: str
    """Content, in a few words."""
    rows: int
    columns: int
    licence: str
    source: str
    """Page of the source."""
    used: str
    """Scenarios and experiments that read it."""
    recipe: Literal["as-it-is", "parquet", "images", "codes", "isolet", "epileptic"] = "as-it-is"
    """Way from the originals to the file."""
    form: TextTable = TextTable()
    """Form of originals that are lines of cells."""
    originals: Annotated[tuple[Original, ...], Field(min_length=1)]
    """Files of the source."""
    content: Digest
    """SHA-256 of the content, equal for files of all programs: see `content_of`."""
    in_any_order: bool = False
    """The rows of several parts may be dealt to the parts otherwise, and in another order."""

    def by_hand(self, name: str) -> str:
        """Say how to bring the set where no address answers; `name` is its name."""
        addresses = ", ".join(next(iter(original.urls), self.source) for original in self.originals)
        return f"Download {addresses} to a folder and run: fedkme data {name} --from FOLDER"

    def make(self, originals: Mapping[str, bytes]) -> bytes:
        """Content of the set's file, from the originals.

        Raises:
            DataError: an original is damaged.
            MissingDependencyError: a package is missing.
        """
        return RECIPES[self.recipe](originals, self.form)


@cache
def catalogue() -> Mapping[str, PublicSet]:
    """Sets by name."""
    source = Path(__file__).with_name("catalogue.toml")
    return {name: validate(PublicSet, entry, name) for name, entry in load_toml(source).items()}


def set_of(path: Path) -> tuple[str, PublicSet] | None:
    """Set whose file ends a path, with its name; None if no set has such a file."""
    ending = path.as_posix()
    return next((entry for entry in catalogue().items() if f"/{ending}".endswith(f"/{entry[1].file}")), None)


def content_of(path: Path, in_any_order: bool = False) -> str:
    """SHA-256 of what a file says: of names, and of numbers and texts in their normal form.

    Args:
        path: an .npz, or a .parquet or .csv file.
        in_any_order: digest an .npz of images by its sorted pairs of image and label, in any part.

    Raises:
        DataError: the file cannot be read.
        MissingDependencyError: a .parquet file without pyarrow.
    """
    digest = hashlib.sha256()
    if path.suffix != ".npz":
        for name, cells in sorted(read_columns(path, path.name).items()):
            _add(digest, name, "\n".join(texts(cells)).encode())
        return digest.hexdigest()
    arrays = read_arrays(path, path.name)
    if in_any_order:
        arrays = {"rows": _sorted_rows(arrays)}
    for name, array in sorted(arrays.items()):
        values = _narrowest(array)
        _add(digest, f"{name} {array.shape} {values.dtype.str}", np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _add(digest: Any, name: str, content: bytes) -> None:
    digest.update(f"{name} {len(content)}\n".encode())
    digest.update(content)


def _narrowest(array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in the smallest type that holds them all, other numbers as float64, texts in UTF-32."""
    if array.dtype.kind in "iu" and array.size:
        least, most = int(array.min()), int(array.max())
        return array.astype(np.result_type(np.min_scalar_type(least), np.min_scalar_type(most)))
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _sorted_rows(arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    parts: Iterable[NDArray[Any]] = (
        np.column_stack([arrays[f"y_{part}"], arrays[f"x_{part}"].reshape(len(arrays[f"y_{part}"]), -1)])
        for part in ("train", "test")
    )
    rows = np.ascontiguousarray(np.concatenate(list(parts)).astype(np.uint8))
    return np.sort(rows.view(f"V{rows.shape[1]}").ravel()).view(np.uint8)
