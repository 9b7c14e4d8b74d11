"""Settings of releases under the name that curators know: see fedkme.release_settings."""

from fedkme.releases.settings import (
    KINDS,
    AnyRelease,
    Balog1Settings,
    Balog2Settings,
    FilePoints,
    GaussianPoints,
    GivenPoints,
    HermiteSettings,
    MerfSettings,
    ReleaseSettings,
    SeedPoints,
    read_points,
    release_settings,
    settings_from_json,
    settings_to_json,
)

__all__ = [
    "KINDS",
    "AnyRelease",
    "Balog1Settings",
    "Balog2Settings",
    "FilePoints",
    "GaussianPoints",
    "GivenPoints",
    "HermiteSettings",
    "MerfSettings",
    "ReleaseSettings",
    "SeedPoints",
    "read_points",
    "release_settings",
    "settings_from_json",
    "settings_to_json",
]
