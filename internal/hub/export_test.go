package hub

// MemberCount returns the number of sessions that the topics have an entry for.
func (h *Hub) MemberCount() int {
	n := 0
	for p := range h.feeds() {
		for _, t := range p.all(nil) {
			t.mu.Lock()
			n += len(t.members)
			t.mu.Unlock()
		}
	}
	return n
}
