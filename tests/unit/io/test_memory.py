"""Tables larger than what the process may map: the error says memory, and not that the file is damaged."""

from __future__ import annotations

import sys

import pytest

CODE = """
import json, resource, struct
import numpy as np
import fullspan as fs

n, path = 2**33, {path!r}
with open(path, "wb") as file:  # sparse: 2 TiB of nothing
    if path.endswith("npy"):
        np.lib.format.write_array_header_1_0(file, dict(descr="<f4", fortran_order=False, shape=(n, 64)))
    elif path.endswith("safetensors"):
        header = json.dumps({{"emb.weight": dict(dtype="F32", shape=[n, 64], data_offsets=[0, 256 * n])}}).encode()
        file.write(struct.pack("<Q", len(header)) + header)
    file.truncate(file.tell() + 256 * n)
resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35))
try:
    next(fs.open_table(path, dtype="float32x64" if path.endswith("f32") else None).blocks())
except fs.InputError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
@pytest.mark.parametrize("suffix", ["npy", "safetensors", "f32"])
def test_a_table_that_cannot_be_mapped_is_too_large_and_not_damaged(python, tmp_path, suffix):
    told = python(CODE.format(path=str(tmp_path / f"huge.{suffix}")))
    assert told.startswith("InputError Reading ")
    assert "needs more memory than this process may take; got: [Errno 12] Cannot allocate memory. Free some" in told
    assert "truncated" not in told


def test_no_memory_while_parsing_is_said_as_well():
    from fullspan.errors import InputError
    from fullspan.io._bounds import reading

    with pytest.raises(InputError, match=r"Reading 'x\.npy' as an npy file needs more memory .*; got: no memory\."):
        with reading("x.npy", "an npy file"):
            raise MemoryError
