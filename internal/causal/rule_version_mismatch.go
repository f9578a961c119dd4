package causal

var versionMismatch = Rule{
	Name: "version-mismatch", Needs: NeedState, Problems: []string{"16"},
	Doc: "CUDA does not initialize: the driver is too old for the library, or does not match the kernel module.",
	Find: failing(false,
		34, 35, // the stub library, a driver that is too old
		209, 222, 803, 804, // no code for this GPU, code too new, driver and module differ
	),
}
