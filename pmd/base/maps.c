/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maps.c - the mappings of this process; see maps.h. Reading them takes a system call for each page of text, and the
 * kernel takes about a microsecond for each mapping: not for the data path.
 *
 * Owns nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "maps.h"

bool maps_open(struct maps *maps)
{
	maps->at = maps->end = 0;
	maps->cut = false;
	maps->fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	return maps->fd >= 0;
}

void maps_close(struct maps *maps)
{
	close(maps->fd);
}

/** Move the text not yet parsed to the start of the buffer, and read more behind it. @return false: the end of the
 *  file, an error, or no room. */
static bool fill(struct maps *maps)
{
	ssize_t got;

	memmove(maps->text, maps->text + maps->at, maps->end - maps->at);
	maps->end -= maps->at;
	maps->at = 0;
	got = read(maps->fd, maps->text + maps->end, sizeof(maps->text) - 1 - maps->end);
	if (got <= 0)
		return false;
	maps->end += (size_t)got;
	return true;
}

/** Get the next line, without its newline. A line that is too long, because of the file's name at its end, comes in
 *  pieces. @param begins set to whether this is the beginning of a line. @return NULL: there are no more. */
static char *line_next(struct maps *maps, bool *begins)
{
	char *line, *newline;
	bool more = true;

	while (!(newline = memchr(maps->text + maps->at, '\n', maps->end - maps->at)) && more)
		more = fill(maps);
	if (maps->at == maps->end)
		return NULL;
	line = maps->text + maps->at;
	maps->at = newline ? (size_t)(newline + 1 - maps->text) : maps->end;
	(newline ? newline : maps->text + maps->end)[0] = '\0';
	*begins = !maps->cut;
	maps->cut = !newline;
	return line;
}

bool maps_next(struct maps *maps, struct mapping *out)
{
	const char *line;
	unsigned long start, end;
	char rights[5] = "";
	bool begins;

	while ((line = line_next(maps, &begins)) != NULL) {
		if (!begins || sscanf(line, "%lx-%lx %4s %*s %*s %lu", &start, &end, rights, &out->inode) != 4)
			continue;
		out->start = start;
		out->end = end;
		out->readable = rights[0] == 'r';
		out->writable = rights[1] == 'w';
		out->shared = rights[3] == 's';
		return true;
	}
	return false;
}
