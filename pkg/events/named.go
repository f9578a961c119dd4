package events

// OpsNamed returns the operations that a name stands for, none where it stands for
// nothing: see [OpByName].
func OpsNamed(name string) []Op {
	if o, ok := OpByName(name); ok {
		return []Op{o}
	}
	return nil
}
