"""Step-size rules: how large an inner gradient step a given number of shots deserves."""

from anyshot.rates.closed_form import ClosedForm
from anyshot.rates.constant import Constant
from anyshot.rates.per_parameter import PerParameter
from anyshot.rates.per_shot import PerShot
from anyshot.rates.rule import Rate
from anyshot.rates.scaled import Scaled
from anyshot.rates.scaled_per_parameter import ScaledPerParameter

__all__ = ["ClosedForm", "Constant", "PerParameter", "PerShot", "Rate", "Scaled", "ScaledPerParameter"]
