package fold

// Checkpoint is what a browser loads of a checkpoint: everything up to the record
// that says that it was saved, at which s must stand, and nothing on its way. It
// is for reading and for starting anew from there. It consumes s.
func (s Snapshot) Checkpoint(id string, timestamp int64) FrontendSnapshot {
	s.messages.close() // the record may come while a text is still open
	f := s.Frontend(true, timestamp)
	f.Status, f.CheckpointID, f.Failure = Ended, &id, nil
	return f
}
