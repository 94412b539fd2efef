/* SPDX-License-Identifier: BSD-3-Clause */
/* ucp.c - a libucp that only tells a version, one that the transport does not know. */
__attribute__((visibility("default"))) void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release);

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
	*major = 1;
	*minor = 15;
	*release = 0;
}
