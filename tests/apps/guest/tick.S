/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest in 512 bytes for the test of live migration. It fills 64 KiB of memory with a pattern. From then on it checks
 * all of it, writes some of it anew, and prints a line at the serial port: '.' or 'X' (memory is wrong), then the count
 * of lines in hexadecimal. So a migration carries memory that changes.
 */
	.code16
	.globl _start
	.set SERIAL, 0x3f8
	.set FACTOR, 40503		/* the pattern: the address times this */
	.set CHANGING, 0xfff0		/* the count is stored here for a moment */
_start:
	cli
	movw $0x2000, %ax
	movw %ax, %es
	xorw %di, %di
fill:
	imulw $FACTOR, %di, %ax
	movw %ax, %es:(%di)
	addw $2, %di
	jnz fill
	xorl %ebx, %ebx
again:
	movb $'.', %cl
check:
	imulw $FACTOR, %di, %ax
	cmpw %ax, %es:(%di)
	je same
	movb $'X', %cl
same:
	addw $2, %di
	jnz check
	incl %ebx
	movl %ebx, %es:CHANGING
	movb %cl, %al
	call put
	movw $8, %si
digit:
	roll $4, %ebx
	movb %bl, %al
	andb $15, %al
	addb $'0', %al
	cmpb $'9', %al
	jbe decimal
	addb $('a' - '9' - 1), %al
decimal:
	call put
	decw %si
	jnz digit
	movb $'\n', %al
	call put
	movw $CHANGING, %di
restore:
	imulw $FACTOR, %di, %ax
	movw %ax, %es:(%di)
	addw $2, %di
	cmpw $(CHANGING + 4), %di
	jne restore
	xorw %di, %di
	jmp again
put:
	movw $SERIAL, %dx
	outb %al, %dx
	ret
	.org 510
	.word 0xaa55			/* a boot sector */
