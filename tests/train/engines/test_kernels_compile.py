"""The kernels of the GPU engine, through Triton's compiler: a card is not needed for that."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHARED_BYTES_OF_A_HOPPER_CARD = 227 * 1024


@pytest.mark.parametrize(
    ("width", "precision", "features"),
    [
        (512, "tf32", "given"),
        (64, "fp32", "given"),
        (48, "tf32", "made of links"),
    ],
)
def test_every_kernel_compiles_for_a_gpu_and_fits_into_it(
    width: int, precision: str, features: str, tmp_path: Path
) -> None:
    script = Path(__file__).parent / "compile_kernels.py"
    told = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script), str(width), precision, features],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shared = json.loads(done.stdout.splitlines()[-1])
    assert {"decode_forward", "propagate", "adam_step"} <= set(shared)
    assert ("share_tiles" in shared) == (precision == "tf32")
    assert max(shared.values()) <= SHARED_BYTES_OF_A_HOPPER_CARD
