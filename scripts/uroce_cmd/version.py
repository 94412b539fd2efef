# SPDX-License-Identifier: BSD-3-Clause
"""The version of this command. It has one source, meson.build; installed, a file made of that."""
import os
import re


def own():
    """@return the version; raises OSError if it cannot be read"""
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed, source = os.path.join(above, "version"), os.path.join(above, os.pardir, "meson.build")
    with open(installed if os.path.exists(installed) else source, encoding="utf-8") as f:
        text = f.read()
    found = re.search(r"^  version: '(.*)',$", text, re.M)
    return found.group(1) if found else text.strip()


def other(version):
    """@return the version of another process, if it is another one than this command's; else, or without one, ''"""
    try:
        return "" if not version or version == own() else version
    except OSError:
        return version
