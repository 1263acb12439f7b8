package jssnapshots

import "time"

// SourceObserver receives what the Sources of a process measure. Calls may overlap and must not block.
type SourceObserver interface {
	// Redelivered is called for each delivery that is not the first one of its record.
	Redelivered()

	// Lag is called regularly with the number of records of a partition that are not in a saved snapshot yet, and the age of the oldest of them. All
	// Sources of a partition report the same, also those that wait for it.
	Lag(partition int, records uint64, oldest time.Duration)

	// LagUnknown is called when the Source of a partition ends: its last Lag is out of date from then on.
	LagUnknown(partition int)
}
