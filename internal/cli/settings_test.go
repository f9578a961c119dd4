package cli

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/config"
	"ingero/internal/probes"
	"ingero/internal/session"
)

// Each host setting takes effect.
func TestHostSettings(t *testing.T) {
	for _, x := range []struct {
		name string
		set  func(*config.Trace)
		off  []probes.HostPart
		want session.Deadband
	}{
		{"none", func(*config.Trace) {}, nil, session.Deadband{}},
		{"no-io", func(c *config.Trace) { c.NoIO = true }, []probes.HostPart{probes.HostDisk}, session.Deadband{}},
		{"no-tcp", func(c *config.Trace) { c.NoTCP = true }, []probes.HostPart{probes.HostTCP}, session.Deadband{}},
		{"no-net", func(c *config.Trace) { c.NoNet = true }, []probes.HostPart{probes.HostNet}, session.Deadband{}},
		{"deadband", func(c *config.Trace) { c.Deadband = 5 }, nil, session.Deadband{Percent: 5}},
		{"heartbeat", func(c *config.Trace) { c.Heartbeat = 30 * time.Second }, nil, session.Deadband{Heartbeat: 30 * time.Second}},
	} {
		c := &config.Config{}
		x.set(&c.Trace)
		if o := probeOptions(c); !slices.Equal(o.NoHost, x.off) || o.Pages || deadband(c) != x.want {
			t.Errorf("%s: off %v, pages %v, %+v", x.name, o.NoHost, o.Pages, deadband(c))
		}
		c.Trace.Pages = true
		if !probeOptions(c).Pages {
			t.Errorf("%s: --pages does not reach the probes", x.name)
		}
	}
}

// Each choice of --stack selects a policy.
func TestStackPolicies(t *testing.T) {
	i := slices.IndexFunc(config.Settings, func(s config.Setting) bool { return s.Flag == "stack" })
	for _, choice := range config.Settings[i].Choices {
		if _, ok := stackPolicies[choice]; !ok {
			t.Errorf("--stack=%s selects no policy", choice)
		}
	}
}
