"""ONNX as a format to export to."""

from __future__ import annotations

from nmt.convert.onnx.checking import check_onnx
from nmt.convert.onnx.files import HOLDS
from nmt.convert.onnx.software import onnx_sides
from nmt.convert.onnx.usage import onnx_remarks, onnx_usage
from nmt.convert.onnx.writing import QUANTIZATIONS, write_onnx
from nmt.convert.target import Target

ONNX = Target(
    name="onnx",
    toolkit="ONNX",
    holds=HOLDS,
    quantizations=QUANTIZATIONS,
    write=write_onnx,
    sides=onnx_sides,
    check_files=check_onnx,
    usage=onnx_usage,
    remarks=onnx_remarks,
    package="onnxruntime",
)
