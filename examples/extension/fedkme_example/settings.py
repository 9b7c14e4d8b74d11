"""Settings of the release method; a consumer reads them, and needs nothing of the curator for it."""

from __future__ import annotations

from typing import Literal

from fedkme.releases.settings import ReleaseSettings


class NormalSettings(ReleaseSettings):
    """Independent columns with the released moments; `rows` is as many as owners have by default."""

    kind: Literal["normal"] = "normal"
