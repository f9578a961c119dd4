package session

// Capabilities implements [Source].
func (l *Live) Capabilities() Capabilities {
	return Capabilities{
		AgentPID: l.AgentPID(), Wake: l.Wake(), Patience: l.Patience, SetSlow: l.SetSlow,
		Memory: l.Memory(), Framer: l.Framer(), StackPolicy: l.StackPolicy(),
		Faults: l.Faults, Sparing: l, deck: l.deck(),
	}
}
