/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.c - runs a fuzz target's LLVMFuzzerTestOneInput on files and on all files of folders, without libFuzzer: for
 * regression tests with the corpus, with any compiler, and to run a single finding in a debugger.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long inputs;

/** The input is in an allocation of exactly its size, so that sanitizers detect any overrun. */
static int replay_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(size ? size : 1);
	int rc = -1;

	if (file && data && fread(data, 1, size, file) == size) {
		LLVMFuzzerTestOneInput(data, size);
		inputs++;
		rc = 0;
	} else {
		fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
	}
	free(data);
	if (file)
		fclose(file);
	return rc;
}

static int replay(const char *path)
{
	struct dirent **entries;
	struct stat st;
	int n, rc = 0;

	if (stat(path, &st) != 0) {
		fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path, (size_t)st.st_size);
	n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		char inner[4096];

		snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && replay(inner) != 0)
			rc = -1;
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return n < 0 ? -1 : rc;
}

int main(int argc, char **argv)
{
	int rc = 0;

	for (int i = 1; i < argc; i++)
		if (replay(argv[i]) != 0)
			rc = 1;
	printf("%lu inputs\n", inputs);
	return inputs == 0 ? 1 : rc;
}
