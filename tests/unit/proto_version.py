#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""proto_version.py PROTO_H SCRIPTS - the uroce command and the engine speak the same version of their protocol."""
import re
import sys

with open(sys.argv[1], encoding="ascii") as header:
    text = header.read()
sys.path.insert(0, sys.argv[2])
from uroce_cmd import proto  # noqa: E402  # pylint: disable=import-error,wrong-import-position

version = int(re.search(r"#define PROTO_VERSION\s+(\d+)", text).group(1))
base = int(re.search(r"#define PROTO_MAGIC\s+\((0x[0-9a-f]+)u \| PROTO_VERSION\)", text).group(1), 16)
if proto.MAGIC != base | version:
    sys.exit(f"scripts/uroce_cmd/proto.py says {proto.MAGIC:#x}, pmd/proto/proto.h {base | version:#x}")
