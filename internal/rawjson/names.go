package rawjson

import "bytes"

// nameSet holds the names of one object. Comparing a few names is cheaper than hashing them.
type nameSet struct {
	few  [16][]byte
	n    int
	many map[string]struct{}
}

// add reports whether the name is new.
func (s *nameSet) add(name []byte) bool {
	if s.many != nil {
		if _, known := s.many[string(name)]; known {
			return false
		}
		s.many[string(name)] = struct{}{}
		return true
	}
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
	s.many[string(name)] = struct{}{}
	return true
}
