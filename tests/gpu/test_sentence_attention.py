"""The kernel for sentences on a GPU, compared with float64 sentence by sentence; tests/kernels has it interpreted."""

import pytest
import torch

from nmt.kernels.flash_attention import try_attention
from nmt.kernels.policy import AttentionByLength, choose_kernels
from tests.sentence_attention import ALLOWED, BORDERS, Case, differences, drawn

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

GPU = torch.device("cuda")
SIZES = [Case([5, 64, 130], heads=2, size=size, is_sliced=True) for size in (8, 40, 64, 80, 128, 136, 256)]
LARGE = [drawn(100 + seed, sentences=200) for seed in range(4)]


@pytest.fixture(autouse=True)
def _native():
    """Its operations exist once its module is imported."""
    from nmt.kernels.sentence_attention import sentence_attention

    try_attention(sentence_attention, GPU, torch.bfloat16)


@pytest.mark.parametrize(
    ("dtype", "case"),
    [
        *((dtype, case) for dtype in ALLOWED for case in BORDERS),
        *((torch.bfloat16, case) for case in (*SIZES, *map(drawn, range(8)), *LARGE)),
    ],
)
def test_it_is_equation_1_in_each_sentence(dtype, case):
    for name, difference in differences(case, dtype, GPU).items():
        assert difference < ALLOWED[dtype], name


def test_it_gives_the_same_bits_each_time():
    found = []
    for _ in range(3):
        torch.manual_seed(1)
        found.append(differences(LARGE[0], torch.bfloat16, GPU))
    assert found[0] == found[1] == found[2]


def test_rows_beyond_32_bits_are_reached():
    """Keys and values lie 2^32 numbers behind the begin of their memory."""
    rows, stride = 520, 1 << 23
    if torch.cuda.mem_get_info(GPU)[0] < 2.2 * rows * stride:
        pytest.skip("needs 10 GB of memory")
    far = torch.empty(rows, stride, dtype=torch.bfloat16, device=GPU)[:, :64].unflatten(1, (1, 64))
    far.copy_(torch.randn(rows, 1, 64))
    ends = torch.tensor([0, 3, rows - 5, rows], dtype=torch.int32, device=GPU)
    near = far.contiguous()
    for is_causal in (True, False):
        found, expected = (torch.ops.nmt.sentence_attention(x, x, x, ends, ends, is_causal)[0] for x in (far, near))
        assert torch.equal(found, expected)


def test_a_gpu_from_ampere_on_chooses_it():
    assert isinstance(choose_kernels(GPU, torch.bfloat16).packed_attention, AttentionByLength)
    assert choose_kernels(GPU, torch.bfloat16, deterministic=True).packed_attention is not None
