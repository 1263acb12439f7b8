package names

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// liveToken is that of the messages that the server publishes again when they are stored, if the streams of the log are so configured. No stream has them.
const liveToken = ".live."

// Live returns the subjects tr.chunks.<p>.> and tr.live.<p>.>: the messages of partition p, and what they are republished as.
func (l Layout) Live(p int) (source, destination string) {
	return l.partitionPrefix(p) + ">", l.livePrefix(p) + ">"
}

// AllLive returns the filter tr.live.<p>.*.*.* of the republished messages of partition p.
func (l Layout) AllLive(p int) string { return l.livePrefix(p) + "*.*.*" }

// LiveTree returns the filter tr.live.<p>.<tenant>.<root>.* of the republished messages of all sessions under the root of s, including the root. The error is a
// *TokenError, or reports an invalid Layout.
func (l Layout) LiveTree(s chunk.Session) (string, error) {
	return valid(l.livePrefix(l.Partition(s))+treeTokens(s)+".*", l.check(s.Tree()))
}

func (l Layout) livePrefix(p int) string {
	return l.withDefaults().Prefix + liveToken + strconv.Itoa(p) + "."
}
