package fold

// Checkpoint returns the snapshot of a checkpoint for a client: everything up to the record that saved it, which must be the
// position of s, without answers in flight. Clients read it, or start again from it. It consumes s.
func (s Snapshot) Checkpoint(id string, timestamp int64) FrontendSnapshot {
	s.messages.close() // the checkpoint may be saved while a text is open
	f := s.Frontend(true, timestamp)
	f.Status, f.CheckpointID, f.Failure = Ended, &id, nil
	return f
}
