"""Tensors that grow in place hold what torch.cat gives."""

import torch

from nmt.kernels.growing import append


def test_it_holds_all_that_was_appended_and_makes_room_only_when_there_is_none():
    torch.manual_seed(0)
    held = torch.empty(2, 3, 0, 4)
    expected, copies = held, 0
    for width in (1, 2, 2, 5, 1, 1):
        new = torch.randn(2, 3, width, 4)
        before = held.data_ptr()
        held = append(held, expected.shape[2], new, room=4)
        expected = torch.cat([expected, new], dim=2)
        copies += held.data_ptr() != before
        assert torch.equal(held[:, :, : expected.shape[2]], expected)
    assert copies == 2
