package causal

var versionMismatch = Rule{
	Name: "version-mismatch", Needs: NeedState, Problems: []string{"16"},
	Doc: "CUDA refuses to start: the driver is too old for the library, or does not fit the kernel's module.",
	Find: failing(false,
		34, 35, // the stub library, a driver that is too old
		209, 222, 803, 804, // no code for this GPU, code too new, driver and module differ
	),
}
