package causal

import (
	"os"
	"path/filepath"
	"testing"
)

// Scenarios of which none is played with shed inputs.
func TestPlainScenarios(t *testing.T) {
	for name, text := range map[string]string{
		"the first call follows 15 s of imports": `
			thread 7 steps=3000 from=15s
			  call cudaLaunchKernel cpu=4us slow=400ms in=0-2 fault
			  cpu 500us vary=10%
			  launch 10 cpu=6us gpu=300us vary=2%
			  sync block
			expect chains 1
			expect cold-start HIGH lost=true±15%`,
		"each iteration has a step of many launches, and one of few": `
			fact tcp-connect pid=7 of=10.0.0.7:443 count=1
			thread 7 steps=2500
			  cpu 1ms vary=10%
			  launch 10 cpu=5us gpu=200us vary=2%
			  sync block
			  launch 300 cpu=5us gpu=100us
			  sync block
			expect silence`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "scenario.txt")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			play(t, file)
		})
	}
}
