"""Heads with a constructed behaviour are the ones that the views choose."""

import numpy as np
import pytest

from nmt.reports.attention_views import backward_sharpness, divergences, mean_distances, views

PIECES = 10
SOURCE = " ".join(f"▁w{i}" for i in range(PIECES))


def looking_at(targets) -> np.ndarray:
    """A head of which query i looks at key targets[i] alone; the last query and key are </s>."""
    return np.eye(PIECES + 1)[list(targets)]


POSITIONS = range(PIECES + 1)
UNIFORM = np.full((PIECES + 1, PIECES + 1), 1 / (PIECES + 1))
ITSELF = looking_at(POSITIONS)
PREVIOUS = looking_at(max(i - 1, 0) for i in POSITIONS)
AT_END = looking_at([PIECES] * (PIECES + 1))
AT_FIRST = looking_at([0] * (PIECES + 1))


def found(make_maps, layers) -> dict:
    return {view.name: view for view in views(make_maps(SOURCE, encoder=np.array(layers)))}


def test_the_heads_that_look_far_away_are_chosen(make_maps):
    far = looking_at((i + 5) % PIECES for i in POSITIONS)
    layers = [[ITSELF, PREVIOUS, AT_END, ITSELF], [far, PREVIOUS, far, AT_END]]
    view = found(make_maps, layers)["Long-distance dependencies"]
    assert (view.figure, view.layer, view.heads) == (3, 1, (0, 2))
    assert "Mean distance 5.0 positions" in view.result
    assert "2 heads" in view.criterion


def test_attention_to_the_end_is_no_distance(make_maps):
    distances = mean_distances(np.array([[AT_END]])[..., :PIECES, :PIECES])
    assert distances.max() == 0
    view = found(make_maps, [[AT_END, PREVIOUS]])["Long-distance dependencies"]
    assert view.heads == (1,)


def test_the_piece_that_looks_farthest_is_followed(make_maps):
    one_far = ITSELF.copy()
    one_far[7] = np.eye(PIECES + 1)[1]
    view = found(make_maps, [[ITSELF, ITSELF], [ITSELF, one_far]])["Long-distance dependencies"]
    assert (view.layer, view.heads, view.piece) == (1, (1,), 7)


def test_anaphora_is_a_sharp_look_back_from_few_pieces(make_maps):
    # Each query of these heads looks at one distant piece, so no single one stands out.
    two_back = looking_at(max(i - 2, 0) for i in POSITIONS)
    pronoun, second = AT_END.copy(), AT_END.copy()
    pronoun[6] = np.eye(PIECES + 1)[1]
    second[6] = 0.5 * np.eye(PIECES + 1)[2] + 0.5 * AT_END[6]
    layers = [[two_back, AT_FIRST, UNIFORM, PREVIOUS], [ITSELF, second, pronoun, PREVIOUS]]
    view = found(make_maps, layers)["Anaphora"]
    assert (view.figure, view.layer, view.heads, view.piece) == (4, 1, (1, 2), 6)
    assert "Sharpness 1.00 for ▁w6 in head 3" in view.result


@pytest.mark.parametrize(
    ("head", "expected"),
    [(AT_FIRST, 1), (PREVIOUS, 0), (ITSELF, 0), (AT_END, 0), (UNIFORM, 0), (AT_FIRST / 2 + AT_END / 2, 0.5)],
)
def test_sharpness_is_attention_to_few_distant_earlier_pieces(head, expected):
    sharpness = backward_sharpness(head[None, None, :PIECES, :PIECES])[0, 0]
    assert sharpness[:2].tolist() == [0, 0]
    assert sharpness[3:] == pytest.approx(np.full(PIECES - 3, expected), abs=1e-9)


def test_structure_is_two_heads_that_differ_most(make_maps):
    similar = 0.9 * ITSELF + 0.1 * UNIFORM
    layers = [[ITSELF, similar, UNIFORM], [ITSELF, similar, PREVIOUS]]
    view = found(make_maps, layers)["Structure"]
    assert (view.figure, view.layer, view.heads, view.piece) == (5, 1, (0, 2), None)


def test_a_head_that_rests_on_the_end_has_no_structure():
    heads = np.array([ITSELF, PREVIOUS, AT_END, ITSELF])[:, :PIECES, :PIECES]
    found = divergences(heads)
    # Only the first piece has the same row in both heads.
    assert found[0, 1] == found[1, 0] == pytest.approx(1 - 1 / PIECES)
    assert found[0, 2] == found[0, 3] == 0


def test_a_short_sentence_has_no_views(make_maps):
    assert views(make_maps("▁a ▁b")) == []
    assert views(make_maps("")) == []
