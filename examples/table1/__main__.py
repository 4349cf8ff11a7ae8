"""Table 1 of the paper, measured on this machine.

python examples/table1 time     time and memory of each layer type over growing n and d, with fitted exponents
python examples/table1 paths    the longest path between two positions
python examples/table1 scale    the gradient of the softmax with and without 1/sqrt(d_k)
"""

import math
from typing import Annotated

import torch
import typer
from layer_types import layer_types
from measuring import exponent, over_lengths, over_widths
from path_lengths import dilated_convolutions, longest_path, recurrent_steps, stacked_attention, stacked_convolutions
from softmax_scale import gradient_norms

from nmt.errors import ConfigError, NmtError
from nmt.table import Table

_NEAR = 0.25
"""A fitted exponent this close to the paper's counts as equal."""
_SHORTEST = 256

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Table 1 of the paper, measured on this machine.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Neighbours = Annotated[int, typer.Option(metavar="N", min=1, help="Neighbours on either side.")]
Kernel = Annotated[int, typer.Option(metavar="K", min=3, help="Width of the convolution; odd.")]


@app.command(name="time")
def time_layers(
    longest: Annotated[int, typer.Option(metavar="N", min=2 * _SHORTEST, help="The longest sequence.")] = 8_192,
    widest: Annotated[int, typer.Option(metavar="D", min=64, help="The widest vectors.")] = 2_048,
    neighbours: Neighbours = 16,
    kernel: Kernel = 3,
) -> None:
    """Time a forward and a backward pass of each layer type on one core, and fit the exponents."""
    _check_odd(kernel)
    torch.set_num_threads(1)
    lengths, widths = _doubled(_SHORTEST, longest), _doubled(32, widest)
    table = Table("", ["layer", "complexity", "n^", "d^", "memory n^", f"ms at n={lengths[-1]:,}", "MB", "the claim"])
    for layer in layer_types(neighbours, kernel):
        by_n, by_d = over_lengths(layer, lengths, 64), over_widths(layer, 512, widths)
        of_n, of_d = (exponent(each, lambda one: one.seconds) for each in (by_n, by_d))
        holds = abs(of_n - layer.exponent_n) <= _NEAR and abs(of_d - layer.exponent_d) <= _NEAR
        table.add(
            layer.name,
            layer.complexity,
            f"{of_n:.2f} ({layer.exponent_n})",
            f"{of_d:.2f} ({layer.exponent_d})",
            f"{exponent(by_n, lambda one: one.megabytes):.2f}",
            f"{by_n[-1].seconds * 1e3:,.1f}",
            f"{by_n[-1].megabytes:,.1f}",
            "holds" if holds else "differs",
        )
    table.note = (
        f"n grows to {lengths[-1]:,} at d = 64; d grows to {widths[-1]:,} at n = 512. "
        "In brackets: the paper's exponents."
    )
    print(table)


@app.command()
def paths(
    length: Annotated[int, typer.Option(metavar="N", min=3, help="Positions.")] = 243,
    neighbours: Neighbours = 16,
    kernel: Kernel = 3,
) -> None:
    """Measure, by gradients, how many operations lie between the first and the last position."""
    _check_odd(kernel)
    n, reach = length, kernel // 2
    table = Table("", ["layer", "paper", "expected", "measured"])
    for name, claim, expected, stack in (
        ("self-attention", "O(1)", 1, stacked_attention(None)),
        ("recurrent", "O(n)", n, recurrent_steps),
        ("convolutional", "O(n / k)", math.ceil((n - 1) / reach), stacked_convolutions(kernel)),
        ("convolutional, dilated", "O(log_k n)", _dilated_layers(n, kernel), dilated_convolutions(kernel)),
        ("self-attention (restricted)", "O(n / r)", math.ceil((n - 1) / neighbours), stacked_attention(neighbours)),
    ):
        table.add(name, claim, str(expected), str(longest_path(stack, n)))
    print(table)


@app.command()
def scale() -> None:
    """Show what 1/sqrt(d_k) is for: the gradient of the softmax with and without it."""
    table = Table("", ["d_k", "scaled", "unscaled"])
    for size, scaled, plain in gradient_norms():
        table.add(str(size), f"{scaled:.3f}", f"{plain:.3f}")
    print(table)


def _doubled(first: int, last: int) -> list[int]:
    return [first << power for power in range((last // first).bit_length())]


def _dilated_layers(n: int, kernel: int) -> int:
    """The logarithm of n to the base k, rounded up."""
    layers = 0
    while kernel**layers < n:
        layers += 1
    return layers


def _check_odd(kernel: int) -> None:
    if kernel % 2 == 0:
        raise ConfigError(
            f"--kernel: expected an odd number, got {kernel}: a position is in the middle of its neighbours."
        )


if __name__ == "__main__":
    try:
        app()
    except NmtError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
