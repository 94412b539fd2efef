# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the uroce command; scripts/uroce starts it."""
