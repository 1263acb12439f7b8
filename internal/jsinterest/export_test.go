package jsinterest

// Repairs returns the number of reads of the log because messages were missing.
func (f *Follower) Repairs() int64 { return f.repairs.Load() }
