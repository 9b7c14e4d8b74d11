"""The generator of images by convolutions."""

import numpy as np
import pytest

from curator.releases.generators import Target, Training, embedding_by, train
from fedkme.errors import ConfigError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.tables.schema import Label, Numeric, Schema
from lab.experiments.images import ImageNetwork


def test_an_image_generator_learns_a_picture_per_class() -> None:
    """Images directly: class 0 is bright on the left, class 1 on the right."""
    schema = Schema(
        columns=(Numeric(name="pixel", bounds=(0, 255), count=64, integer=True),),
        label=Label(name="digit", classes=("left", "right")),
    )
    picture = np.zeros((2, 8, 8))
    picture[0, :, :4] = picture[1, :, 4:] = 255.0
    features = FourierMapSpec(dimension=100, gamma=0.05, seed=0).make(schema)
    mean = features.features(picture.reshape(2, 64)).T * 0.5
    network = ImageNetwork(schema, 2, code=3, hidden=16, channels=4)
    settings = Training(steps=60, batch=32, learning_rate=0.03, reports=1)
    result = train(network, [Target(mean, embedding_by(features))], np.array([0.5, 0.5]), settings)
    table = result.sample(40, seed=0)
    schema.check(table, "images")
    assert table.labels is not None
    bright_left = table.values.reshape(-1, 8, 8)[:, :, :4].mean(axis=(1, 2)) > 127
    np.testing.assert_array_equal(bright_left, table.labels == 0)
    with pytest.raises(ConfigError, match="square image"):
        ImageNetwork(Schema(columns=(Numeric(name="pixel", bounds=(0, 1), count=65),)))
