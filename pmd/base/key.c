/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * key.c - reading the key file. The environment holds only the file's name, because /proc shows the environment,
 * children inherit it and crash reports print it. The file contains 32 hexadecimal digits, optionally followed by white
 * space. Owns nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "key.h"

#define DIGITS	 (2 * NIC_KEY_LEN)
#define FILE_MAX (DIGITS + 64) /* including white space */

bool pmd_key_is_set(void)
{
	return getenv("UROCE_KEY");
}

void pmd_key_wipe(struct pmd_key *key)
{
	explicit_bzero(key, sizeof(*key));
}

/** @return the digit's value, or -1 if c is no hexadecimal digit */
static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool key_parse(const char *text, size_t len, uint8_t *out)
{
	if (len < DIGITS)
		return false;
	for (size_t i = 0; i < NIC_KEY_LEN; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	for (size_t i = DIGITS; i < len; i++)
		if (!isspace((unsigned char)text[i]))
			return false;
	return true;
}

/** Check that only root, the user and perhaps the file's group can read the file, and that the group cannot write to
 *  it. @return 0 or a negative errno. */
static int check_owner(const char *path, const struct stat *st, char *err, size_t err_len)
{
	if (!S_ISREG(st->st_mode)) {
		snprintf(err, err_len, "UROCE_KEY: '%.128s' is no regular file", path);
		return -EINVAL;
	}
	if (st->st_uid != geteuid() && st->st_uid != 0) {
		snprintf(err, err_len,
			 "UROCE_KEY: '%.128s' belongs to user %u; only your own files and root's are trusted", path,
			 (unsigned)st->st_uid);
		return -EACCES;
	}
	if (st->st_mode & (S_IWGRP | S_IRWXO)) {
		snprintf(err, err_len,
			 "UROCE_KEY: others may read or change '%.128s' (mode %04o); chmod 600 it, or 640 for a group "
			 "that shares it",
			 path, (unsigned)(st->st_mode & 07777));
		return -EACCES;
	}
	return 0;
}

/** @return bytes read, or a negative errno. */
static int read_all(int fd, char *text, size_t room)
{
	size_t len = 0;

	while (len < room) {
		ssize_t n = read(fd, text + len, room - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (int)len;
}

static int key_file(int fd, const char *path, struct pmd_key *out, char *err, size_t err_len)
{
	char text[FILE_MAX + 1];
	struct stat st;
	int rc = fstat(fd, &st) == 0 ? check_owner(path, &st, err, err_len) : -errno;

	if (rc != 0)
		return rc;
	rc = read_all(fd, text, sizeof(text));
	if (rc >= 0 && (rc > FILE_MAX || !key_parse(text, (size_t)rc, out->secret))) {
		snprintf(err, err_len,
			 "UROCE_KEY: '%.128s' holds no key; it has to be %u hexadecimal digits, as of 'openssl rand "
			 "-hex %u'",
			 path, (unsigned)DIGITS, (unsigned)NIC_KEY_LEN);
		rc = -EINVAL;
	}
	explicit_bzero(text, sizeof(text));
	if (rc < 0)
		return rc;
	out->set = true;
	return 0;
}

int pmd_key_read(struct pmd_key *out, char *err, size_t err_len)
{
	const char *path = getenv("UROCE_KEY");
	int fd, rc;

	*out = (struct pmd_key){.set = false};
	err[0] = '\0';
	if (!path)
		return 0;
	if (!path[0]) {
		snprintf(err, err_len, "UROCE_KEY is empty; name the file of the key, or unset it");
		return -EINVAL;
	}
	if (getauxval(AT_SECURE)) {
		snprintf(err, err_len,
			 "UROCE_KEY is set, and programs that run with other rights than their caller's take no key "
			 "from it; unset it");
		return -EACCES;
	}
	if (!nic_key_supported()) {
		snprintf(err, err_len,
			 "UROCE_KEY is set, and this uroce was built without libsodium, which authenticates packets; "
			 "build it with, or unset UROCE_KEY");
		return -ENOTSUP;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	rc = fd < 0 ? -errno : key_file(fd, path, out, err, err_len);
	if (fd >= 0)
		close(fd);
	if (rc != 0) {
		pmd_key_wipe(out);
		if (!err[0])
			snprintf(err, err_len, "UROCE_KEY: cannot read '%.128s': %s", path, strerror(-rc));
	}
	return rc;
}
