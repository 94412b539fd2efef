/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trampoline.h - assembly macros: aliases, and tail jumps that look their target up at the first call (tramp.c). The
 * jumps preserve all argument registers except the floating-point ones: no function of the real library has
 * floating-point arguments.
 */
/* clang-format off */
#ifndef TRAMPOLINE_H
#define TRAMPOLINE_H

	.section .note.GNU-stack, "", %progbits /* no executable stack */
	.text

#if defined(__x86_64__)

/* Second name of a function of this library. */
#define ALIAS(name, target)                                                                                            \
	.globl name;                                                                                                   \
	.type name, @function;                                                                                         \
	name:;                                                                                                         \
	jmp target;                                                                                                    \
	.size name, .- name

#define TRAMPOLINE(n)                                                                                                  \
	.globl shim_tramp_##n;                                                                                         \
	.type shim_tramp_##n, @function;                                                                               \
	shim_tramp_##n:;                                                                                               \
	movq shim_tramp_slots + 8 * n(%rip), %r11;                                                                     \
	testq %r11, %r11;                                                                                              \
	jz 1f;                                                                                                         \
	jmp *%r11;                                                                                                     \
	1 : movl $n, %r11d;                                                                                            \
	jmp shim_tramp_first;                                                                                          \
	.size shim_tramp_##n, .- shim_tramp_##n

/* Seven registers and the return address are on the stack, so it is aligned to 16 bytes at the call. */
#define SLOTS(count)                                                                                                   \
	shim_tramp_first:;                                                                                             \
	pushq %rax;                                                                                                    \
	pushq %rdi;                                                                                                    \
	pushq %rsi;                                                                                                    \
	pushq %rdx;                                                                                                    \
	pushq %rcx;                                                                                                    \
	pushq %r8;                                                                                                     \
	pushq %r9;                                                                                                     \
	movl %r11d, %edi;                                                                                              \
	call shim_tramp_resolve;                                                                                       \
	movq %rax, %r11;                                                                                               \
	popq %r9;                                                                                                      \
	popq %r8;                                                                                                      \
	popq %rcx;                                                                                                     \
	popq %rdx;                                                                                                     \
	popq %rsi;                                                                                                     \
	popq %rdi;                                                                                                     \
	popq %rax;                                                                                                     \
	jmp *%r11;                                                                                                     \
	.bss;                                                                                                          \
	.balign 8;                                                                                                     \
	.globl shim_tramp_slots;                                                                                       \
	.hidden shim_tramp_slots;                                                                                      \
	shim_tramp_slots : .skip 8 * count

#elif defined(__aarch64__)

#define ALIAS(name, target)                                                                                            \
	.globl name;                                                                                                   \
	.type name, %function;                                                                                         \
	name:;                                                                                                         \
	b target;                                                                                                      \
	.size name, .- name

#define TRAMPOLINE(n)                                                                                                  \
	.globl shim_tramp_##n;                                                                                         \
	.type shim_tramp_##n, %function;                                                                               \
	shim_tramp_##n:;                                                                                               \
	adrp x16, shim_tramp_slots + 8 * n;                                                                            \
	ldr x16, [x16, :lo12:shim_tramp_slots + 8 * n];                                                               \
	cbz x16, 1f;                                                                                                   \
	br x16;                                                                                                        \
	1 : mov w17, n;                                                                                                \
	b shim_tramp_first;                                                                                            \
	.size shim_tramp_##n, .- shim_tramp_##n

#define SLOTS(count)                                                                                                   \
	shim_tramp_first:;                                                                                             \
	stp x29, x30, [sp, -96]!;                                                                                      \
	mov x29, sp;                                                                                                   \
	stp x0, x1, [sp, 16];                                                                                          \
	stp x2, x3, [sp, 32];                                                                                          \
	stp x4, x5, [sp, 48];                                                                                          \
	stp x6, x7, [sp, 64];                                                                                          \
	str x8, [sp, 80];                                                                                              \
	mov w0, w17;                                                                                                   \
	bl shim_tramp_resolve;                                                                                         \
	mov x16, x0;                                                                                                   \
	ldp x0, x1, [sp, 16];                                                                                          \
	ldp x2, x3, [sp, 32];                                                                                          \
	ldp x4, x5, [sp, 48];                                                                                          \
	ldp x6, x7, [sp, 64];                                                                                          \
	ldr x8, [sp, 80];                                                                                              \
	ldp x29, x30, [sp], 96;                                                                                        \
	br x16;                                                                                                        \
	.bss;                                                                                                          \
	.balign 8;                                                                                                     \
	.globl shim_tramp_slots;                                                                                       \
	.hidden shim_tramp_slots;                                                                                      \
	shim_tramp_slots : .skip 8 * count

#else
#error "trampolines are written for x86-64 and arm64"
#endif

/* DATA defines a bool variable; DATA_ALIAS defines another name of it. */
#define DATA(name)                                                                                                     \
	.bss;                                                                                                          \
	.globl name;                                                                                                   \
	.hidden name;                                                                                                  \
	name : .skip 1;                                                                                                \
	.text

#define DATA_ALIAS(name, target)                                                                                       \
	.globl name;                                                                                                   \
	.type name, STT_OBJECT;                                                                                        \
	.set name, target;                                                                                             \
	.size name, 1

#endif
