"""Reading of files by their paths: a device or named pipe in a file's place is an error, no endless wait.

Every reader of the packages opens files here; tests/test_architecture.py checks it.
"""

import errno
import io
import os
import stat

SMALL = 16 << 20
"""Most bytes of a file of settings, certificates or keys."""
_DESCRIPTORS = ("/dev/", "/proc/")
"""Folders whose pipes are a process's own, such as /dev/stdin and those of a shell's `<(...)`."""


def open_input(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file, or a pipe that the shell opened already, for its bytes.

    Raises:
        OSError: the file cannot be opened, or is a folder, a device, or a pipe with a name of its own.
    """
    place = os.fspath(path)
    try:  # without O_NONBLOCK a named pipe waits for its writer
        opened = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # NUL, or what is no text
        raise OSError(errno.EINVAL, "no file can have such a name", place) from None
    try:
        kind = os.fstat(opened).st_mode
        what = ""
        if stat.S_ISFIFO(kind) and not place.startswith(_DESCRIPTORS):
            what = "it is a named pipe, where a file belongs"
        elif stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not os.isatty(opened)):
            what = "it is a device, where a file belongs"
        if what:
            raise OSError(errno.EINVAL, what, place)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
        os.set_blocking(opened, True)
        return io.BufferedReader(io.FileIO(opened))
    except BaseException:
        os.close(opened)
        raise


def read_bytes(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Content of a file, of `most` bytes.

    Raises:
        OSError: see `open_input`; or the file is larger.
    """
    with open_input(path) as file:
        data = file.read(-1 if most is None else most + 1)
    if most is not None and len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", os.fspath(path))
    return data


def read_text(
    path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict", most: int | None = None
) -> str:
    """Text of a file, with each line end as a line feed.

    Raises:
        OSError: see `read_bytes`.
        UnicodeDecodeError: the file is not in the encoding.
    """
    text = read_bytes(path, most).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")
