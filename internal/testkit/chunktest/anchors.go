package chunktest

import "regexp"

var anchors = regexp.MustCompile(`(?m)^(id: [0-9.]*)(?:-[0-9a-z]{1,10})`)

// WithoutAnchors returns an event stream whose ids are sequences alone, for a comparison with records whose time of storage the test does not know.
func WithoutAnchors(wire string) string {
	for {
		shorter := anchors.ReplaceAllString(wire, "$1")
		if shorter == wire {
			return wire
		}
		wire = shorter
	}
}
