package retention_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/store"
	"ingero/internal/store/retention"
)

// Each table with rows of recordings is either forgotten or listed as kept.
func TestForgetKnowsTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := store.Migrate(path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var all string
	if err := db.QueryRow("SELECT group_concat(m.name, ' ' ORDER BY m.name) FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'session'").Scan(&all); err != nil {
		t.Fatal(err)
	}
	decided := append(retention.Tables(), "libraries", "drops", "reports", "losses", "tiers", "gpus", "pods") // kept, or bounded otherwise
	slices.Sort(decided)
	if all != strings.Join(decided, " ") {
		t.Errorf("tables %s, decided of %v", all, decided)
	}
}
