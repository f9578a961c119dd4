package causal

var versionMismatch = Rule{
	Name: "version-mismatch", Needs: NeedState, Problems: []string{"16"},
	Doc: "CUDA refuses to start: the driver is too old for the library, or does not fit the kernel's module.",
	Find: func(f *Facts) []Finding {
		return failing(f, false, map[int32]bool{
			34: true, 35: true, // the stub library, a driver that is too old
			209: true, 222: true, 803: true, 804: true, // no code for this GPU, code too new, driver and module differ
		})
	},
}
