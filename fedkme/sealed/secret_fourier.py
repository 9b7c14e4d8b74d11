"""h1 whose draw (omega, b) only owners and consumer know: for a curator that handles hashes only.

The draw comes from the group secret of a run by HKDF-SHA256 and ChaCha20. So a party that sees part of the
draw (omega can be fitted from rows with known hashes) learns nothing of the secret, nor of the draw for
another gamma or dimension. Normal variates are computed from the keystream with additions, multiplications,
divisions and square roots alone, each rounded as IEEE 754 says. So the draw is the same bit for bit on every
machine and under every version of every library; numpy does not promise that for its generators. Cosines come
from the machine's library: a coordinate in fixed point may differ by one unit, as with a public draw.

Both forms have a random phase b here, which changes no inner product.

**Proposition.** For fixed rows x_1 .. x_m the law of (h1(x_1), .., h1(x_m)) over the draw depends on the
distances ||x_i - x_j|| alone. *Proof.* Rows with the same distances are images of each other under
x -> R x + t, R orthogonal. omega . (R x + t) + b = (R' omega) . x + (b + omega . t). R' omega has the law
of omega, which is isotropic; given omega, b + omega . t modulo 2 pi is uniform as b is; columns are
independent. QED

Rounding is post-processing. So a party that knows neither the draw nor any row with its hash learns from
hashes only the distances between rows, up to the generator's security and the last bits of floating-point
angles. It does learn distances: h1(x) . h1(y) estimates exp(-gamma ||x - y||^2). Distances tell much: with
public rows of the same distribution they can be enough to reconstruct rows approximately. Nothing here is
differentially private. docs/decisions/010-hashed-rows.md says what is proven; audit/attacks/hashes.py attacks
hashes.
"""

import math
import struct

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedkme.arrays import FloatArray
from fedkme.features.fourier import FourierFeatures, SecretFourierSpec, frequencies_of
from fedkme.sealed.group import GroupSecret, check_same


class SecretFourier(FourierFeatures):
    """One secret draw of h1, at a party that holds the group secret; its spec is public."""

    def __init__(self, spec: SecretFourierSpec, secret: GroupSecret) -> None:
        """Derive the draw from the secret.

        Raises:
            SealedBoxError: the spec commits to another secret.
        """
        check_same(secret, spec.commitment)
        self.spec = spec
        shape = struct.pack(">QQd", spec.dimension, spec.width, spec.gamma)
        stream = _Keystream(secret.derive(b"draw of h1", spec.kind.encode(), shape))
        frequencies = frequencies_of(spec)
        scale = math.sqrt(2.0 * spec.gamma)
        omega = scale * normal(stream.uniform(spec.width * frequencies)).reshape(spec.width, frequencies)
        super().__init__(spec, omega, 2.0 * math.pi * stream.uniform(frequencies))

    def __repr__(self) -> str:
        return f"SecretFourier({self.spec})"


class _Keystream:
    """Uniform variates from ChaCha20, under a key that serves nothing else."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def uniform(self, size: int) -> FloatArray:
        """(k + 1/2) 2^-52 with k uniform below 2^52, (size,): symmetric about 1/2, never 0 or 1."""
        words = np.frombuffer(self._cipher.update(bytes(8 * size)), dtype="<u8")
        draws: FloatArray = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        return draws


def normal(uniform: FloatArray) -> FloatArray:
    """Standard normal variates by inversion, (m,) in (0, 1) -> (m,).

    Wichura 1988, algorithm AS 241 (PPND16), relative error about 1e-16, with a logarithm of our own.
    """
    q = uniform - 0.5
    central = np.abs(q) <= 0.425
    r = 0.180625 - q * q
    body = q * _ratio(_CENTRE, np.where(central, r, 0.0))
    tail = np.minimum(uniform, 1.0 - uniform)
    s = np.sqrt(-logarithm(np.where(central, 0.25, tail)))
    far = s > 5.0
    ends = np.where(
        far, _ratio(_FAR, np.where(far, s - 5.0, 0.0)), _ratio(_NEAR, np.where(far, 0.0, s - 1.6))
    )
    return np.where(central, body, np.where(q < 0.0, -ends, ends))


def logarithm(x: FloatArray) -> FloatArray:
    """Natural logarithm of positive numbers, from basic operations; relative error about 2e-16."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < math.sqrt(0.5)
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    power = exponent.astype(np.float64) - small
    z = (mantissa - 1.0) / (mantissa + 1.0)  # log m = 2 artanh z, |z| <= 0.1716
    square = z * z
    series = np.zeros_like(z)
    for odd in range(23, 0, -2):
        series = series * square + 1.0 / odd
    # ln 2 in two parts: the last bits of the first part are 0, so that its product is exact.
    return power * 0.693147180369123816490 + (2.0 * z * series + power * 1.90821492927058770002e-10)


_Ratio = tuple[tuple[float, float], ...]
"""Coefficients of a numerator and a denominator, side by side, those of the constant terms first."""


def _ratio(coefficients: _Ratio, x: FloatArray) -> FloatArray:
    numerator, denominator = (_polynomial(c, x) for c in zip(*coefficients, strict=True))
    return numerator / denominator


def _polynomial(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    value = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


_CENTRE: _Ratio = (
    (3.3871328727963666080e0, 1.0),
    (1.3314166789178437745e2, 4.2313330701600911252e1),
    (1.9715909503065514427e3, 6.8718700749205790830e2),
    (1.3731693765509461125e4, 5.3941960214247511077e3),
    (4.5921953931549871457e4, 2.1213794301586595867e4),
    (6.7265770927008700853e4, 3.9307895800092710610e4),
    (3.3430575583588128105e4, 2.8729085735721942674e4),
    (2.5090809287301226727e3, 5.2264952788528545610e3),
)
_NEAR: _Ratio = (
    (1.42343711074968357734e0, 1.0),
    (4.63033784615654529590e0, 2.05319162663775882187e0),
    (5.76949722146069140550e0, 1.67638483018380384940e0),
    (3.64784832476320460504e0, 6.89767334985100004550e-1),
    (1.27045825245236838258e0, 1.48103976427480074590e-1),
    (2.41780725177450611770e-1, 1.51986665636164571966e-2),
    (2.27238449892691845833e-2, 5.47593808499534494600e-4),
    (7.74545014278341407640e-4, 1.05075007164441684324e-9),
)
_FAR: _Ratio = (
    (6.65790464350110377720e0, 1.0),
    (5.46378491116411436990e0, 5.99832206555887937690e-1),
    (1.78482653991729133580e0, 1.36929880922735805310e-1),
    (2.96560571828504891230e-1, 1.48753612908506148525e-2),
    (2.65321895265761230930e-2, 7.86869131145613259100e-4),
    (1.24266094738807843860e-3, 1.84631831751005468180e-5),
    (2.71155556874348757815e-5, 1.42151175831644588870e-7),
    (2.01033439929228813265e-7, 2.04426310338993978564e-15),
)
