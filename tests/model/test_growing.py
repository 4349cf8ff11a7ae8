"""Tensors that grow in place hold what torch.cat gives."""

import torch

from nmt.model.state import Growing


def test_it_holds_all_that_was_appended_and_makes_room_only_when_there_is_none():
    torch.manual_seed(0)
    expected = torch.empty(2, 3, 0, 4)
    growing, places = Growing(expected), set()
    for width in (1, 2, 2, 5, 1, 1):
        new = torch.randn(2, 3, width, 4)
        growing, expected = growing.append(new, room=4), torch.cat([expected, new], dim=2)
        held = growing.last(expected.shape[2])
        places.add(held.data_ptr())
        assert torch.equal(held, expected)
        assert torch.equal(growing.last(1), expected[:, :, -1:])
    assert len(places) == 2
    kept = growing.select(torch.tensor([1])).append(expected[1:, :, :2], room=4)
    assert torch.equal(kept.last(14), torch.cat([expected[1:], expected[1:, :, :2]], dim=2))
