package structured

// Apply is ApplyStream without the stream.
func (s *State) Apply(data []byte) error {
	_, err := s.ApplyStream(data)
	return err
}

// LastError is the last rejection, "" if no chunk was rejected, and again after a final chunk has replaced the value.
func (s *Stream) LastError() string { return s.failure }
