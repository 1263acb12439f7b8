package hub

// MemberCount returns the number of sessions that the topics have an entry for.
func (h *Hub) MemberCount() int {
	n := 0
	for _, p := range h.feeds.all() {
		for _, t := range p.all(nil) {
			t.mu.Lock()
			n += len(t.members)
			t.mu.Unlock()
		}
	}
	return n
}

// FeedCount returns the number of feeds, open or not.
func (h *Hub) FeedCount() int { return len(h.feeds.all()) }
