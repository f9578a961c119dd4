package retention_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/store"
	"ingero/internal/store/retention"
	"ingero/internal/testkit"
)

// Each table with rows of recordings is either forgotten or listed as kept.
func TestForgetKnowsTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := store.Migrate(path); err != nil {
		t.Fatal(err)
	}
	all := testkit.Rows(t, path, "SELECT group_concat(m.name, ' ' ORDER BY m.name) FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'session'")
	decided := append(retention.Tables(), "libraries", "drops", "reports", "losses", "tiers", "gpus", "pods") // kept, or bounded otherwise
	slices.Sort(decided)
	if all != strings.Join(decided, " ") {
		t.Errorf("tables %s, decided of %v", all, decided)
	}
}
