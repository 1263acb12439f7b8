package rawjson

import "bytes"

// NameSet holds the names of one object. Comparing a few names is cheaper than hashing them, and it grows only with the names that were read.
type NameSet struct {
	few  [16][]byte
	n    int
	many map[string]struct{}
}

// Add reports whether the name is new.
func (s *NameSet) Add(name []byte) bool {
	if s.many == nil {
		for _, known := range s.few[:s.n] {
			if bytes.Equal(known, name) {
				return false
			}
		}
		if s.n < len(s.few) {
			s.few[s.n] = name
			s.n++
			return true
		}
		s.many = make(map[string]struct{}, 4*len(s.few))
		for _, known := range s.few {
			s.many[string(known)] = struct{}{}
		}
	}
	before := len(s.many)
	s.many[string(name)] = struct{}{}
	return len(s.many) > before
}
