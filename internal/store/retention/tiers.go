package retention

import "time"

// Tier is a length of a table's rows, and how long rows of that length are kept.
type Tier struct {
	Length time.Duration
	Keep   time.Duration // 0: as long as there is room
}

// Seconds returns the column seconds of the tier's rows.
func (t Tier) Seconds() int64 { return int64(t.Length / time.Second) }

// The tiers of the tables rollups, counted and accounts, from fine to coarse. Each length is a
// multiple of the previous one. The finest rows of counted hold one tick each.
var (
	Rollups = [...]Tier{
		{time.Second, 6 * time.Hour},
		{10 * time.Second, 48 * time.Hour},
		{time.Minute, 30 * 24 * time.Hour},
		{10 * time.Minute, 365 * 24 * time.Hour},
		{time.Hour, 0},
	}
	Counted  = [...]Tier{{time.Second, 6 * time.Hour}, {10 * time.Second, 48 * time.Hour}, {time.Minute, 0}}
	Accounts = [...]Tier{{10 * time.Second, 48 * time.Hour}, {10 * time.Minute, 365 * 24 * time.Hour}}
)
