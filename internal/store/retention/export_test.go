package retention

// Tables returns the tables whose rows are forgotten.
func Tables() []string {
	all := recordingTables[:]
	for _, f := range forgotten {
		all = append(all, f.table)
	}
	return all
}
