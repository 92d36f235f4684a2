"""Ceilings of a correlated pair by simulation: 20 million critters of the model's own law, numpy only.

Prints, for smile (with mouth_open) and red_lips (with big_lips), the accuracy and the FNR in per cent at FPR 1, 2, 5
and 10 % of the posterior log-odds. tests/critters.rs quotes the numbers (numpy 2.4.6, generator default_rng(0)).
"""

import numpy as np

generator = np.random.default_rng(0)


def ceiling(gap, share, partner_gap, partner_share, phi, n=20_000_000):
    c = phi * np.sqrt(share * (1 - share) * partner_share * (1 - partner_share))
    with_partner = (share * partner_share + c) / partner_share
    without = (share * (1 - partner_share) - c) / (1 - partner_share)
    partner = generator.random(n) < partner_share
    present = generator.random(n) < np.where(partner, with_partner, without)
    evidence = (present - 0.5) * gap + generator.standard_normal(n)
    partner_evidence = (partner - 0.5) * partner_gap + generator.standard_normal(n)
    ratio = np.exp(partner_gap * partner_evidence)
    yes = partner_share * with_partner * ratio + (1 - partner_share) * without
    no = partner_share * (1 - with_partner) * ratio + (1 - partner_share) * (1 - without)
    score = gap * evidence + np.log(yes / no)
    negatives = np.sort(score[~present])[::-1]
    missed = [100 * (score[present] <= negatives[int(f * len(negatives))]).mean() for f in (0.01, 0.02, 0.05, 0.10)]
    return ((score > 0) == present).mean(), missed


if __name__ == "__main__":
    print("smile   ", *ceiling(2.6, 0.5, 3.2, 0.4, 0.35))
    print("red_lips", *ceiling(2.6, 0.4, 3.0, 0.3, 0.30))
