package natstest

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// logTail keeps the last log lines of a server, which are printed if the test
// fails.
type logTail struct {
	mu    sync.Mutex // guards the fields below
	lines []string

	violations []string // lines about requests and subscriptions that the server refused for lack of a permission
}

const keptLines = 200

var (
	violation = regexp.MustCompile(`(Publish|Subscription) Violation`)

	// writeErrorQuestion is a request that an edge or a worker makes once after a write without a response, and does not need: whether the server has failed
	// to write the stream, see jsclient.Client.WriteFailed. Only a user that may purge gets a response.
	writeErrorQuestion = regexp.MustCompile(`:tailrace-(edge|worker)[^"]*".*Publish Violation - Subject "\$JS\.(\w+\.)?API\.STREAM\.PURGE\.`)
)

func (l *logTail) keep(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == keptLines {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
	if violation.MatchString(line) && !writeErrorQuestion.MatchString(line) {
		l.violations = append(l.violations, line)
	}
}

// checkViolations fails the test for each request and subscription that the server
// refused.
func (c config) checkViolations(tb testing.TB, l *logTail) {
	tb.Helper()
	if !c.FailOnViolation {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.violations {
		tb.Errorf("permission missing: %s", line)
	}
}

// show prints the tail if the test has failed.
func (l *logTail) show(tb testing.TB, name string) {
	tb.Helper()
	if !tb.Failed() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tb.Logf("the end of the log of server %s:\n%s", name, strings.Join(l.lines, "\n"))
}
