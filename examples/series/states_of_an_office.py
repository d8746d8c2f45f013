"""
States of an office
===================

States of an office from its air: when is somebody in, if nobody wrote it down and a tenth of the cells is missing?

The CO₂ and the temperature of an office are measured every ten minutes for two weeks. Two hidden states that are
learned from these alone tell warm hours from cold ones, for the heating runs by day, on weekends, too. Two sentences of
knowledge say which states are meant: nobody is in at night and on weekends, and somebody is in at most 30 % of the
time. They are constraints; no row has a label. With ``project_at_predict`` constraints hold in predictions, too.
"""

import numpy as np
import polars as pl

from spectrem import E, GaussianHMM, part
from spectrem.plotting import plot_states

rng = np.random.default_rng(0)
when = pl.datetime_range(pl.datetime(2026, 3, 2), pl.datetime(2026, 3, 15, 23, 50), "10m", eager=True)
n, hours = len(when), np.arange(144) / 6
heated = np.tile((hours >= 6) & (hours < 18), 14)

people = np.zeros((14, 144), int)
for day in (0, 1, 2, 3, 4, 7, 8, 9, 10, 11):
    came, left = rng.normal([9, 16.5], 0.7)
    people[day] = rng.integers(1, 4) * ((hours >= came) & (hours < left) & ((hours < 12) | (hours >= 13)))
people = people.ravel()

air, level = np.empty((n, 2)), np.array([430.0, 18.5])
for row in range(n):
    target = np.array([430 + 150 * people[row], 18 + 3.5 * heated[row] + 0.3 * people[row]])
    level += np.array([0.3, 0.15]) * (target - level)
    air[row] = level + rng.normal(0, [25, 0.3])
air[rng.random(air.shape) < 0.1] = np.nan
air[700:730] = np.nan  # five hours without power

office = pl.DataFrame({"when": when, "CO2 (ppm)": air[:, 0], "temperature (°C)": air[:, 1]})
truth = np.where(people > 0, "occupied", "empty")

occupied = part("state") == "occupied"
away = (part("hour") < 7) | (part("hour") >= 19) | (part("weekday") >= 5)
knowledge = [E[occupied & away] == 0, E[occupied] <= "30%"]

settings = {
    "states": ["empty", "occupied"],
    "covariance_type": "full",
    "time": "when",
    "random_state": 0,
    "n_threads": 1,
}
alone = GaussianHMM(**settings).fit(office)
right = (alone.predict(office) == truth).mean()
right = max(right, 1 - right)  # nothing names these states; let the truth name them
print(f"from the air alone: accuracy {right:.3f}, CO2 of the states {alone.means_[:, 0].round()}")

model = GaussianHMM(constraints=knowledge, **settings).fit(office)
right = (model.predict(office) == truth).mean()
print(f"learned with knowledge: accuracy {right:.3f}, CO2 of the states {model.means_[:, 0].round()}")

model.set_params(project_at_predict=True, decode="posterior")
right = (model.predict(office) == truth).mean()
print(f"learned and decided with knowledge: accuracy {right:.3f}")

# %%
# Each ribbon is as high as its state is probable. They follow the people through all ten working days, but for the hour
# of lunch, which is as warm as the others. The weekends are warm, too, and stay empty.
figure = plot_states(office, model.predict_proba(office), names=model.states_, time="when")
alt = "CO2 and temperature of two weeks over ribbons of two states: occupied in the hours of ten working days"
