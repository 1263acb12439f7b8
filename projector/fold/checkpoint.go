package fold

// Checkpoint returns the snapshot of a checkpoint for a client: everything up to the record that saved it, which must be the
// position of s, without answers in flight. Clients read it, or start again from it.
func (s Snapshot) Checkpoint(id string, timestamp int64) FrontendSnapshot {
	own := From(s)
	own.own()
	own.s.messages.close() // the checkpoint may be saved while a text is open
	f := own.s.Frontend(true, timestamp)
	f.Status, f.CheckpointID, f.Failure = Ended, &id, nil
	return f
}
