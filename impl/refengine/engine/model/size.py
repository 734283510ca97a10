"""The model's size, and the bound that keeps every number in it exact.

Every value is an integer in a float64. Weights and folded values are small, so that the largest
sum is known from the sizes alone; below 2**53 it is exact in whichever order it is added.
"""

from dataclasses import dataclass

EXACT_BELOW = 1 << 53
FOLD = 31
"""Modulus to which values are reduced after each layer, into -HALF … HALF. Odd."""
HALF = FOLD // 2
WEIGHT = 3
"""Largest weight of a layer."""
SHARPNESS = 8
"""Exponent of the largest attention weight: weights are powers of two from 1 on."""
GAIN = 1 << 10
"""Factor of an average of values before it is floored, so that old tokens matter."""
NEAR = 64
"""Base of a position's last two digits, by which it is embedded."""


@dataclass(frozen=True)
class ModelSize:
    """Size of the model. Heads and the inner width must be divisible by the number of ranks.

    Raises ValueError for an impossible size.
    """

    vocabulary: int = 257
    width: int = 32
    heads: int = 4
    inner: int = 64
    layers: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.vocabulary - 1, self.width, self.heads, self.inner, self.layers) < 1:
            raise ValueError(f"{self} has a size that is too small")
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be split into {self.heads} heads")

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def score_bits(self) -> int:
        """Power of two by which scores are divided before they become exponents."""
        return (8 * self.head_width - 1).bit_length()

    def check_ranks(self, ranks: int) -> None:
        """Raise ValueError if it cannot be split over so many ranks."""
        if ranks < 1 or self.heads % ranks or self.inner % ranks:
            raise ValueError(
                f"{self.heads} heads and an inner width of {self.inner} cannot be split over "
                f"{ranks} ranks"
            )

    def largest(self, context: int) -> int:
        """Return a bound of all values, for any weights and tokens, with so many positions."""
        projected = max(self.width, self.inner) * HALF * WEIGHT
        return max(
            3 * HALF,  # a token and the two digits of its position
            projected + HALF,  # and what was there before
            self.head_width * HALF * HALF,  # a score
            context * HALF * GAIN << SHARPNESS,  # a sum of values by weight, to be divided
            self.width * HALF * HALF * self.vocabulary + self.vocabulary,  # a logit, made unique
        )

    def check_exact(self, context: int) -> None:
        """Raise ValueError if some value might not be exact with so many positions."""
        largest = self.largest(context)
        if largest >= EXACT_BELOW:
            raise ValueError(
                f"{self} at {context} positions may reach {largest}; float64 is exact below 2**53"
            )
