"""Statements of sections 3 and 5 against the engine, numpy and numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from core.layers import sinusoid
from studies import figures, section3, section5
from studies.section3 import LOPSIDED, SYMMETRIC, convolution, dot_product_moments, positional_encoding, wavelengths


def claim(study, id_: str):
    return next(each for each in study.claims if each.id == id_)


# Section 3 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", [SYMMETRIC, LOPSIDED])
def test_components_have_mean_0_and_variance_1(component: dict[float, float]) -> None:
    assert sum(component.values()) == pytest.approx(1)
    assert sum(value * p for value, p in component.items()) == pytest.approx(0)
    assert sum(value**2 * p for value, p in component.items()) == pytest.approx(1)


@pytest.mark.parametrize("component", [SYMMETRIC, LOPSIDED])
@pytest.mark.parametrize("d_k", [1, 5, 64])
def test_moments_of_the_dot_product_agree_with_samples(component: dict[float, float], d_k: int) -> None:
    random = np.random.default_rng(0)
    draws = random.choice(list(component), size=(2, 40_000, d_k), p=list(component.values()))
    products = (draws[0] * draws[1]).sum(axis=1)
    mean, variance = dot_product_moments(component, d_k)
    assert mean == pytest.approx(products.mean(), abs=5 * math.sqrt(d_k / 40_000))
    assert variance == pytest.approx(products.var(), rel=0.15)


def test_moments_tell_other_components_apart() -> None:
    """With variance 4 the dot product has 16 d_k; the claim would fail."""
    assert dot_product_moments({-2.0: 0.5, 2.0: 0.5}, 3) == pytest.approx((0, 48))


def test_gradient_of_the_softmax_is_the_trace_of_torchs_jacobian() -> None:
    scores = torch.tensor([0.3, -1.2, 2.0])
    jacobian = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, 0), scores)
    weights = torch.softmax(scores, 0)
    assert float(jacobian.trace()) == pytest.approx(float(1 - (weights**2).sum()), abs=1e-6)


def test_convolution_is_torchs() -> None:
    random = np.random.default_rng(0)
    inputs, kernel = random.standard_normal((9, 4)), random.standard_normal((3, 4, 5))
    theirs = torch.nn.functional.conv1d(
        torch.from_numpy(inputs.T[None].copy()), torch.from_numpy(kernel.transpose(2, 1, 0).copy())
    )[0].T
    assert np.allclose(convolution(inputs, kernel), theirs.numpy())


def test_positions_are_the_engines() -> None:
    """B37: the form that is claimed about is the one that is trained with."""
    ours = positional_encoding(50, 512)
    assert np.abs(ours - sinusoid(50, 512).numpy()).max() < 1e-6
    assert ours[0].tolist() == [0.0, 1.0] * 256
    assert ours[3, 2] == pytest.approx(math.sin(3 / 10_000 ** (2 / 512)))


def test_wavelengths_by_hand() -> None:
    assert wavelengths()[0] == pytest.approx(2 * math.pi)
    assert wavelengths()[-1] == pytest.approx(2 * math.pi * 10_000 ** (510 / 512))
    # 1.0366e-4 and 1.0e-4 are the last frequencies of the two forms (pitfall B7).
    assert 2 * math.pi / wavelengths()[-1] == pytest.approx(1.0366e-4, rel=1e-4)
    assert 2 * math.pi / wavelengths(255)[-1] == pytest.approx(1.0e-4)


def test_a_map_that_depends_on_the_position_would_be_seen() -> None:
    """Positions learned at random have no linear map from one to the next."""
    random = np.random.default_rng(0)
    table = random.standard_normal((300, 16))
    linear, *_ = np.linalg.lstsq(table[:-1], table[1:], rcond=None)
    assert np.abs(table[:-1] @ linear - table[1:]).max() > 1


def test_one_matrix_serves_three_places() -> None:
    """With three matrices one more piece would add 3 x 512 parameters."""
    assert claim(section3.STUDY, "section3.shared_embeddings").compute() == 512


# Section 5 ------------------------------------------------------------------------------------------------------------


def test_b19_learning_rate_at_the_steps_worked_by_hand() -> None:
    """B19: 512^-0.5 x 4000^-1.5 at update 1, and so on."""
    by_hand = {
        "section5.rate.d512.step_1": 512**-0.5 * 4_000**-1.5,
        "section5.rate.d512.step_4000": 512**-0.5 * 4_000**-0.5,
        "section5.rate.d512.step_100000": 512**-0.5 * 100_000**-0.5,
        "section5.rate.d1024.step_4000": 1_024**-0.5 * 4_000**-0.5,
    }
    for id_, rate in by_hand.items():
        stated = claim(section5.STUDY, id_)
        assert stated.expected == pytest.approx(rate, abs=stated.tolerance)
        assert stated.compute() == pytest.approx(rate)


def test_hours_of_the_two_trainings() -> None:
    assert claim(section5.STUDY, "section5.base.hours").compute() == pytest.approx(11.11, abs=0.01)
    assert claim(section5.STUDY, "section5.big.days").compute() == pytest.approx(3.472, abs=0.001)


# Figures --------------------------------------------------------------------------------------------------------------


def test_sentences_of_the_figures_hold_the_words_that_the_captions_name() -> None:
    assert [figure.name for figure in figures.FIGURES] == ["figure3", "figure4", "figure5"]
    assert {"making", "more", "difficult"} <= set(figures.MAKING.split())
    assert {"its", "Law", "application"} <= set(figures.LAW.split())
    assert (figures.LAYER, figures.NUM_LAYERS) == (5, 6)


def test_even_shares_are_two_words_of_the_sentence() -> None:
    assert claim(figures.STUDIES[0], "figure3.share").expected == pytest.approx(2 / 26)
