package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// cache keeps the Grants of verified tokens, by the hash of all bytes of the token, until they expire. Only valid tokens get into it, so made-up ones can
// neither fill it nor evict others.
type cache struct {
	shards   [16]shard
	perShard int
}

type shard struct {
	mu      sync.Mutex // guards entries
	entries map[tokenHash]entry
	_       [48]byte // of a cache line, so that two shards do not share one
}

type tokenHash = [sha256.Size]byte

// entry is a Grant with what it was verified with: it counts while the issuer has the same keys.
type entry struct {
	grant    *Grant
	verifier Verifier
	keys     *keySet
}

func newCache(size int) *cache {
	c := &cache{perShard: (size + 15) / 16}
	for i := range c.shards {
		c.shards[i].entries = map[tokenHash]entry{}
	}
	return c
}

func (c *cache) get(h *tokenHash, now time.Time) *Grant {
	s := &c.shards[h[0]&15]
	s.mu.Lock()
	e, ok := s.entries[*h]
	s.mu.Unlock()
	switch {
	case !ok:
		return nil
	case e.grant.Expired(now) || e.verifier.keys() != e.keys: // keys can start a load: not under the lock
		s.mu.Lock()
		delete(s.entries, *h)
		s.mu.Unlock()
		return nil
	default:
		return e.grant
	}
}

// put stores a Grant. In a full shard it replaces an expired one of a few that it looks at, or any: a token that is not found is verified again.
func (c *cache) put(h *tokenHash, e entry, now time.Time) {
	s := &c.shards[h[0]&15]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) >= c.perShard {
		s.evict(now)
	}
	s.entries[*h] = e
}

func (s *shard) evict(now time.Time) {
	const looks = 8
	var victim tokenHash
	n := 0
	for h, e := range s.entries { // in random order
		victim = h
		if n++; n == looks || e.grant.Expired(now) {
			break
		}
	}
	delete(s.entries, victim)
}

func (c *cache) len() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
