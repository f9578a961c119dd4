package causal

var deviceAssert = Rule{
	Name: "device-assert", Needs: NeedState, Problems: []string{"15"},
	Doc:     "A kernel failed, by an assertion or a bad access: its context is lost, and every later call fails.",
	Instead: []string{"call-slow"},
	Find: func(f *Facts) []Finding {
		return failing(f, true, map[int32]bool{700: true, 702: true, 710: true, 714: true, 715: true, 716: true, 717: true, 718: true, 719: true})
	},
}
