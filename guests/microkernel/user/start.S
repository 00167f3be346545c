@ The header that the kernel reads, then the entry.
	.file	"start.S"	@ or the ELF names a temporary object, another one each time
	.section .header, "a"
	.word	start, text_start, text_end, data_start, data_end, stack_bottom, stack_top
	.text
	.global	start
start:
	bl	main
	mov	r12, #14	@ CALL_EXIT
	swi	0
