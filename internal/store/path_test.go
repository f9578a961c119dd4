package store

import "testing"

func TestDefaultPath(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  string
		who  Invoker
		want string
	}{
		{"named", "other.db", Invoker{UID: 1000, Home: "/home/ada"}, "other.db"},
		{"named, a service", "/data/x.db", Invoker{Home: "/root", System: true}, "/data/x.db"},
		{"person", "", Invoker{UID: 1000, Home: "/home/ada"}, "/home/ada/.ingero/ingero.db"},
		{"person, service installed", "", Invoker{UID: 1000, Home: "/home/ada", System: true}, "/home/ada/.ingero/ingero.db"},
		{"sudo", "", Invoker{UID: 1000, Home: "/home/ada", Sudo: true}, "/home/ada/.ingero/ingero.db"},
		{"sudo, service installed", "", Invoker{UID: 1000, Home: "/home/ada", Sudo: true, System: true}, "/home/ada/.ingero/ingero.db"},
		{"root's shell", "", Invoker{Home: "/root"}, "/root/.ingero/ingero.db"},
		{"service", "", Invoker{Home: "/root", System: true}, "/var/lib/ingero/ingero.db"},
		{"service without a home", "", Invoker{}, "/var/lib/ingero/ingero.db"},
		{"container, home is the root", "", Invoker{Home: "/"}, "/var/lib/ingero/ingero.db"},
		{"container, another user", "", Invoker{UID: 65534, Home: "/", System: true}, "/var/lib/ingero/ingero.db"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			getenv := func(k string) string {
				if k == "INGERO_DB" {
					return tt.env
				}
				return ""
			}
			if got := DefaultPath(getenv, tt.who); got != tt.want {
				t.Errorf("path = %s, want %s", got, tt.want)
			}
		})
	}
}
