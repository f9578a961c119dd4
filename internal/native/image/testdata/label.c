// An exported label without a size, at the end of its section, and a hidden function in another section.
__asm__(".section .text.a,\"ax\"\n"
	".globl label\n"
	"label: .skip 8, 0x90\n");
__attribute__((section("later"), visibility("hidden"), used)) int hidden(void)
{
	return 1;
}
