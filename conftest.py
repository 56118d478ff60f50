"""What holds for the tests and for the doctests of the package alike."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests import shapes

# One thread a worker: two workers on two cores, and sums in one order.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Frameworks and trackers stay off the network, and Keras takes the backend that is installed.
for _variable, _value in (("HF_HUB_OFFLINE", "1"), ("WANDB_MODE", "offline"), ("KERAS_BACKEND", "torch")):
    os.environ.setdefault(_variable, _value)

# They have no doctests, and collecting them would import four frameworks, which takes every worker many seconds.
collect_ignore = [f"src/fullspan/monitor/{name}.py" for name in ("keras", "lightning", "skorch", "transformers")]

shapes.install()

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
