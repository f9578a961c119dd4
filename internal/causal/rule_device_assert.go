package causal

var deviceAssert = Rule{
	Name: "device-assert", Needs: NeedState, Problems: []string{"15"},
	Doc:     "A kernel failed with an assertion or an illegal access. Its context is lost, and every later call fails.",
	Instead: []string{"call-slow"},
	Find:    failing(true, 700, 702, 710, 714, 715, 716, 717, 718, 719),
}
