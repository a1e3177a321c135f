"""Two levels of randomised response: a permanent answer that the client keeps, and noise anew each
time that it is sent.

Trust       Local model. True codes and permanent answers exist on the client only; what `send`
            returns may leave it.
Unit        One client, who keeps one permanent answer for good, whatever its record becomes.
Neighbours  REPLACE_ONE: that client's code becomes any other code, in all sendings.
Guarantee   epsilon-LDP of the permanent answer for any number of sendings, delta = 0: they are
            post-processing of it. One sending alone is epsilon_1-LDP, t together are epsilon_t-LDP,
            both exactly and less.
Paper       [EPK14] Erlingsson, Pihur and Korolova 2014 (RAPPOR), section 3; [ABGZ22] Arcolezi,
            Couchot, Al Bouna and Xiao 2022, whose L-GRR and L-OSUE these two are. Numbers below are
            ours.

    (1)  p* = p1 p2 + (k - 1) q1 q2,   q* = p1 q2 + q1 p2 + (k - 2) q1 q2            k-ary twice is
         k-ary
    (2)  p* = 1/2,                     q* = q1 p2 + (1 - q1) q2,   q2 = 1 - p2       unary with p1 =
         1/2, then each bit flipped or not
    (3)  epsilon_1 = ln(p* / q*),  of bits ln((1 - q*) / q*)                          exact:
         products of integers
    (4)  epsilon_t = ln( (p1 a + (k - 1) q1) / (q1 a + p1 + (k - 2) q1) ),   of bits ln( ((1 - q1) a
         + q1) / (q1 a + 1 - q1) ),  a = (p2 / q2)^t
    (5)  n Var_t(f_v) = (f p1 (1 - p1) + (1 - f) q1 (1 - q1)) / (p1 - q1)^2
                        + (b p2 (1 - p2) + (1 - b) q2 (1 - q2)) / (t (p1 - q1)^2 (p2 - q2)^2),   b =
                        q1 + f (p1 - q1)

Of (4): sendings s have likelihood L_b under a permanent answer b, and a truth x the likelihood q1
sum_b L_b + (p1 - q1) L_x. The ratio of two truths is largest where L_x has the largest and L_y the
smallest share of the sum, which is where all t sendings are x. Of bits, both that differ are at
that extreme. It grows with t towards the permanent answer's epsilon. The first term of (5), the
permanent answer's, stays however often clients send; the second is gone after many. With t = 1 both
are those of (1) and (2).

RAPPOR keeps an answer for each value, so that a client whose value changes shows the change, and
pays for both. Here an answer is one client's and stands whatever the value becomes: nothing shows,
and the estimate is of the values at the first answer.

Symbols     k categories; p1, q1 truth and lie of the permanent answer, p2, q2 of a sending, t
            sendings, f the share of category v among n clients, f_v its estimate from the mean of t
            sendings.
Not covered who sends: two sendings share a permanent answer, whose bits are a fingerprint (of a
hundred cells and more most sendings can be
            linked by it, of few hardly any); sendings of two permanent answers of one client.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.mechanisms.unary_encoding import Unary

_STEP = 2**-40
_LEAST_NOISE = 2**-20
"""A share of epsilon: a sending with less noise than it takes away would be the answer itself."""


@dataclass(frozen=True)
class TwoLevels:
    """The law of the permanent answer, and of what is sent given it: over the same categories, or
    of each bit.
    """

    permanent: Response | Unary
    sending: Response

    @property
    def sent(self) -> Response | Unary:
        """The law of one sending given the truth; equations (1) and (2)."""
        first = self.permanent
        second = self.sending
        bits = self.sending.bits
        if isinstance(first, Unary):
            weight = first.weight * second.keep + (first.total - first.weight) * second.lie
            return Unary(first.categories, weight, first.total << bits)
        keep = first.keep * second.keep + (first.categories - 1) * first.lie * second.lie
        lie = (
            first.keep * second.lie
            + first.lie * second.keep
            + (first.categories - 2) * first.lie * second.lie
        )
        return Response(first.categories, first.bits + bits, keep, lie)

    def epsilon_of(self, sendings: int) -> float:
        """Of so many sendings together; equation (4)."""
        # beyond, the permanent answer is as good as known
        odds = min(sendings * self.sending.epsilon, 700.0)
        a = math.exp(odds)
        lie = self.permanent.lie_probability
        if isinstance(self.permanent, Unary):
            return math.log(((1 - lie) * a + lie) / (lie * a + 1 - lie))
        truth = self.permanent.truth_probability
        others = self.permanent.categories - 1
        return math.log((truth * a + others * lie) / (lie * a + truth + (others - 1) * lie))


def two_levels(permanent: Response | Unary, *, epsilon: float) -> TwoLevels:
    """The noise of a sending with which it is epsilon-LDP alone, rounded against us.
    Raises ParameterError: epsilon is not above 0 and below the permanent answer's; PrivacyError: it
    is too small for so many categories.
    """
    if not 0 < epsilon < permanent.epsilon * (1 - _LEAST_NOISE):
        raise ParameterError(
            "sending epsilon",
            epsilon,
            f"a number > 0 and below the permanent answer's, {permanent.epsilon:.6g}",
        )
    odds = _odds(permanent, epsilon)
    categories = 2 if isinstance(permanent, Unary) else permanent.categories
    while True:
        levels = TwoLevels(permanent, response(epsilon=odds, categories=categories))
        if levels.sent.epsilon <= epsilon:
            return levels
        odds -= _STEP * max(1.0, odds)


def _odds(permanent: Response | Unary, epsilon: float) -> float:
    """ln(p2 / q2) that solves equation (3)."""
    if isinstance(permanent, Unary):
        lie = permanent.lie_probability
        sent = 1 / (1 + math.exp(epsilon))
        truth = (1 - lie - sent) / (1 - 2 * lie)
        return math.log(truth / (1 - truth))
    first = permanent.truth_probability / permanent.lie_probability
    wanted = math.exp(epsilon)
    return math.log(
        (wanted * (first + permanent.categories - 2) - (permanent.categories - 1))
        / (first - wanted)
    )


def send(answer: np.ndarray, law: Response, stream: Stream) -> np.ndarray:
    """Permanent answers with noise anew: codes of shape (clients,), or bits of shape (clients,
    categories), bool; of the same shape.

    Args:
        law: `TwoLevels.sending`.
    """
    if answer.dtype == np.bool_:
        return (
            randomise(answer.reshape(-1).astype(np.uint8), law, stream)
            .reshape(answer.shape)
            .astype(np.bool_)
        )
    return randomise(answer, law, stream)
