package subjects

import (
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// closedToken is that of messages to a partition of an earlier generation. Its stream stores them with the token of all others.
const closedToken = ".closed."

// Closed returns the subjects tr.closed.<p>.*.*.* and tr.chunks.<p>.*.*.* with the wildcards of a subject transform: what a partition takes after a later
// generation has replaced it, and what it is stored as.
func (l Layout) Closed(p int) (source, destination string) {
	return l.closedPrefix(p) + "*.*.*", l.partitionPrefix(p) + "{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
}

// ClosedSubject returns the subject tr.closed.<p>.<tenant>.<root>.<session>, under which a session is continued in a closed partition. The error is that of
// SubjectIn.
func (l Layout) ClosedSubject(p int, s chunk.Session) (string, error) {
	subject, err := l.SubjectIn(p, s)
	if err != nil {
		return "", err
	}
	return l.closedPrefix(p) + strings.TrimPrefix(subject, l.partitionPrefix(p)), nil
}

// AllClosed returns the filter tr.closed.*.*.*.* of all messages to closed partitions.
func (l Layout) AllClosed() string { return l.withDefaults().Prefix + closedToken + "*.*.*.*" }

func (l Layout) closedPrefix(p int) string {
	return l.withDefaults().Prefix + closedToken + strconv.Itoa(p) + "."
}
